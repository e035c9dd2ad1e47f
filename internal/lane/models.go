package lane

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
)

// forbiddenFor is the time for which a process leaves out attributes that its role must not write.
const forbiddenFor = 10 * time.Minute

// models remembers that the role must not write units of limits and counters by model. The zero value is ready.
type models struct {
	// until is the end of that, in Unix ns; 0 if it is not so.
	until atomic.Int64
	log   *slog.Logger
}

// areForbidden reports whether writes leave out units and counters by model.
func (m *models) areForbidden() bool {
	until := m.until.Load()
	return until != 0 && time.Now().UnixNano() < until
}

// learnRefusal learns from the answer to a retry without units and counters by model, after a role refused the
// write. If it is not refused again, the role lacks the attributes.
func (m *models) learnRefusal(a Answer) {
	if a.Verdict == ddb.Landed || a.Verdict == ddb.Refused {
		m.LeaveOut()
	}
}

// LeaveOut makes writes leave out units and counters by model for ten minutes.
func (m *models) LeaveOut() {
	if m.until.Swap(time.Now().Add(forbiddenFor).UnixNano()) == 0 && m.log != nil {
		m.log.Warn("dynalimit: the role must not write the attributes v_* of buckets: spend is not counted by model; allow them as docs/permissions.md does")
	}
}
