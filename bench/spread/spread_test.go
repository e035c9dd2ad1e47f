package spread

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/bench/internal/program"
)

func TestMain(m *testing.M) {
	if program.RunChild(serveOrders) { // spread runs itself again
		return
	}
	goleak.VerifyTestMain(m)
}

var (
	rounds = flag.Int("rounds", 5, "rounds, in each of which every side has a turn")
	turns  = flag.Duration("turn", time.Second, "how long a turn is")
	delay  = flag.Duration("latency", 5*time.Millisecond, "delay of ddbmem before it executes a request")
)

// BenchmarkSpread runs each case once, in seconds. Command report judges the results.
func BenchmarkSpread(b *testing.B) {
	b.Run("keys", func(b *testing.B) {
		reportCase(b, settings{Keys: 10_000, Callers: 32, Rounds: *rounds, Turn: *turns}.runProcess, *delay)
	})
	b.Run("light", func(b *testing.B) {
		reportCase(b, settings{Keys: 498, Callers: 256, Rounds: *rounds, Turn: *turns, Light: true}.runProcess, *delay)
	})
	b.Run("rare", func(b *testing.B) {
		reportCase(b, func(context.Context, time.Duration) (v program.Values, err error) {
			err = program.RunVirtual(func(ctx context.Context) error {
				v, err = callRarely(ctx, 200, 3)
				return err
			})
			return v, err
		}, 0)
	})
}

func reportCase(b *testing.B, run func(context.Context, time.Duration) (program.Values, error), before time.Duration) {
	var v program.Values
	for b.Loop() {
		var err error
		v, err = run(b.Context(), before)
		require.NoError(b, err)
	}
	program.Report(b, v)
}

func TestSpread(t *testing.T) {
	s := settings{Keys: 20, Callers: 3, Rounds: 1, Turn: 100 * time.Millisecond}
	v, err := s.runProcess(t.Context(), time.Millisecond)
	require.NoError(t, err)
	for _, side := range sides {
		require.Positive(t, v[side+"-us"], side)
		require.Positive(t, v[side+"-calls/s"], side)
		require.Positive(t, v[side+"-allocs"], side)
	}
	require.Positive(t, v["lean-cpu-ratio"])
	s.Light = true
	v, err = s.runProcess(t.Context(), time.Millisecond)
	require.NoError(t, err)
	require.Positive(t, v["sdk-p50-ratio"])
}

func TestSparse(t *testing.T) {
	var v program.Values
	require.NoError(t, program.RunVirtual(func(ctx context.Context) (err error) {
		v, err = callRarely(ctx, 3, 1)
		return err
	}))
	require.Positive(t, v["rcu/op"])
	require.GreaterOrEqual(t, v["trips"], 1.0)
}
