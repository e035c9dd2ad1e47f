package archive

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
)

// put is a Writer of one function.
type put func(ctx context.Context, name string, data []byte) error

func (p put) Put(ctx context.Context, name string, data []byte) error { return p(ctx, name, data) }

// TestPutThatDoesNotReturn: an Archive gives a file up after a time that depends on its size,
// whether the Writer heeds its context or not, and however it ends.
func TestPutThatDoesNotReturn(t *testing.T) {
	for name, test := range map[string]struct {
		put   put
		after time.Duration
		why   string
	}{
		"heeds its context":  {func(ctx context.Context, _ string, _ []byte) error { <-ctx.Done(); return ctx.Err() }, 5 * time.Second, "deadline exceeded"},
		"hangs":              {func(context.Context, string, []byte) error { <-time.After(time.Hour); return nil }, 6 * time.Second, "not stored the file in time"},
		"ends its goroutine": {func(context.Context, string, []byte) error { runtime.Goexit(); return nil }, 0, "ended its goroutine"},
		"fails after its end": {func(ctx context.Context, _ string, _ []byte) error {
			<-ctx.Done()
			<-time.After(time.Second / 2)
			return ctx.Err()
		}, 5500 * time.Millisecond, "in time"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, err := New(test.put, nil)
				require.NoError(t, err)
				began := time.Now()
				r := process(t, a, snapshot(1, "key-1"))
				assert.Equal(t, test.after, time.Since(began))
				require.Len(t, r.Failures, 1)
				assert.False(t, r.Failures[0].Unreadable)
				assert.ErrorContains(t, r.Failures[0].Err, test.why)
				<-time.After(2 * time.Hour) // nothing is left behind
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		a, err := New(put(func(ctx context.Context, _ string, _ []byte) error { <-ctx.Done(); return ctx.Err() }), nil)
		require.NoError(t, err)
		began := time.Now()
		require.Error(t, a.putInTime(t.Context(), "large", make([]byte, 64<<20)))
		assert.Equal(t, 5*time.Second+64*5*time.Second, time.Since(began))
	})
}

// TestOverdueWritersDoNotPileUp: as many calls as may be made at once are left behind, and files are
// written again once one of them has returned.
func TestOverdueWritersDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		var works atomic.Bool
		hang := make(chan struct{})
		a, err := New(put(func(context.Context, string, []byte) error {
			if calls.Add(1); !works.Load() {
				<-hang
			}
			return nil
		}), &Options{Writers: 2})
		require.NoError(t, err)
		for range 10 {
			assert.Len(t, process(t, a, snapshot(1, "key-1")).Failures, 1)
		}
		assert.EqualValues(t, 2, calls.Load())
		works.Store(true)
		close(hang)
		synctest.Wait()
		assert.Equal(t, aggregator.Result{Counted: 1}, process(t, a, snapshot(1, "key-1")))
	})
}

// TestUnansweredFileIsWrittenAgain: a store that takes a file and does not answer is told of, and
// asked again, and nothing that expired is missing in the end.
func TestUnansweredFileIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t)
		files := &memory{}
		var silent atomic.Int64
		silent.Store(3)
		a, err := New(put(func(ctx context.Context, name string, data []byte) error {
			if silent.Add(-1) >= 0 {
				<-ctx.Done()
				return ctx.Err()
			}
			return files.Put(ctx, name, data)
		}), nil)
		require.NoError(t, err)
		stop := s.follow("archive", a.Process)
		for n := range 4 {
			s.hour(n)
		}
		<-time.After(10 * time.Minute)
		require.NoError(t, s.limiter.Close(t.Context()))
		stop()
		assert.Len(t, files.lines(t), len(s.gone))
		assert.Negative(t, silent.Load())
	})
}
