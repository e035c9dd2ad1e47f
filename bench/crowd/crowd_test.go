package crowd

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/bench/internal/program"
	"github.com/dynalimit/dynalimit/bench/internal/subject"
)

func TestMain(m *testing.M) {
	if program.RunChild(runTask) { // crowd runs itself again
		return
	}
	goleak.VerifyTestMain(m)
}

// crowds returns the measured crowds: 40 processes that share 20 slots, and 2 processes of jobs that wait 10 s at most.
// The third are workers of 2 processes, which hold 6,000 tokens and use 600.
func crowds() map[string]settings {
	return map[string]settings{
		"slots": {
			Processes: 40, Callers: 2, For: time.Minute, Amount: 1, Holds: 5 * time.Second, Random: true,
			limit: dynalimit.Concurrent(subject.Limit, 20, time.Minute), killEvery: 2 * time.Second, lost: .02,
		},
		"deadlines": {
			Processes: 2, Callers: 50, For: 30 * time.Second, Amount: 1, Uses: 1, Patience: 10 * time.Second,
			limit: dynalimit.PerMinute(subject.Limit, 1800).WithBurst(30), taken: 30,
		},
		"workers": {
			Processes: 2, Callers: 10, For: time.Minute, Amount: 6000, Uses: 600, Holds: time.Second,
			limit: dynalimit.PerMinute(subject.Limit, 60_000), taken: 60_000,
		},
	}
}

// BenchmarkCrowd runs each crowd once, in minutes.
func BenchmarkCrowd(b *testing.B) {
	for name, s := range crowds() {
		b.Run(name, func(b *testing.B) {
			var o *outcome
			var err error
			for b.Loop() {
				o, err = runCrowd(b.Context(), s)
				require.NoError(b, err)
			}
			program.Report(b, o.values)
			if o.failed != "" {
				b.Log("failed:", o.failed)
			}
		})
	}
}

func TestCrowd(t *testing.T) {
	for name, s := range crowds() {
		t.Run(name, func(t *testing.T) {
			s.Processes, s.Callers, s.For, s.Holds, s.taken, s.killEvery, s.lost = 2, 2, time.Second, s.Holds/50, 0, 0, 0
			o, err := runCrowd(t.Context(), s)
			require.NoError(t, err)
			assert.Empty(t, o.failed)
			assert.Positive(t, o.values["granted"])
			assert.LessOrEqual(t, o.values["most-at-once"], 20.)
		})
	}
}
