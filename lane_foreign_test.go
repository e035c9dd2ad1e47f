package dynalimit

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A bucket that another program wrote since our last write is told once, and
// nothing that dynalimit writes is taken for it.
func TestForeignWriterIsNoticedOnce(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		var log bytes.Buffer
		logged := func() int { return strings.Count(log.String(), "another program") }
		opts := perMinute()
		opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
		s := newProcess(t, e, opts)
		other := s.peer(perMinute())
		for range 5 { // claims of others, and a bucket made anew
			s.acquire("u", Amounts{"tpm": 10})
			s.clock.advance(2 * time.Hour)
			other.acquire("u", Amounts{"tpm": 10})
			lease := s.acquire("u", Amounts{"tpm": 10})
			s.delete("u")
			other.acquire("u", Amounts{"tpm": 10})
			require.NoError(t, lease.Rollback(t.Context()))
		}
		require.Zero(t, logged())
		for range 3 {
			s.acquire("u", Amounts{"tpm": 10})
			s.clock.advance(3 * time.Second)
			require.True(t, s.foreignAcquire("u", s.item("u"), 5))
			s.acquire("u", Amounts{"tpm": 10})
			assert.Equal(t, 1, logged(), "and it is no error")
		}
		assert.Contains(t, log.String(), "entity=u")
		assert.Contains(t, log.String(), "level=WARN")
	})
}
