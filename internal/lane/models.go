package lane

import (
	"log/slog"
	"sync/atomic"

	"github.com/dynalimit/dynalimit/internal/ddb"
)

// forbiddenFor is the time, in ms, for which a process leaves out attributes that its role must not write.
const forbiddenFor = 600_000

// models remembers that the role must not write units of limits and counters by model.
type models struct {
	// until is the end of that, by elapsed; 0 if it is not so.
	until atomic.Int64
	// elapsed is the time since the start of the registry, in ms.
	elapsed func() int64
	log     *slog.Logger
}

// areForbidden reports whether writes leave out units and counters by model now: LeaveOut was called within the
// last ten minutes.
func (m *models) areForbidden() bool {
	until := m.until.Load()
	return until != 0 && m.elapsed() < until
}

// learnRefusal is called with the answer to a retry without units and counters by model, after a role refused
// the write. If the retry landed, or only its condition failed, writes leave them out for ten minutes.
func (m *models) learnRefusal(a Answer) {
	if a.Verdict == ddb.Landed || a.Verdict == ddb.Refused {
		m.LeaveOut()
	}
}

// LeaveOut makes writes leave out units and counters by model for ten minutes. The first call logs a warning.
func (m *models) LeaveOut() {
	if m.until.Swap(m.elapsed()+forbiddenFor) == 0 {
		m.log.Warn("dynalimit: the role must not write the attributes v_* of buckets: spend is not counted by model; allow them as docs/permissions.md does")
	}
}
