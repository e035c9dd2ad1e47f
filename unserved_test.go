package dynalimit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A take that does not fit is denied although smaller ones, which do, keep coming:
// nobody who asks not to wait waits in line.
func TestTakeThatDoesNotFitIsDeniedBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, db := waitLimiter(t, PerDay("tpm", 1000))
		_, err := l.Acquire(t.Context(), "u", "m", Amounts{"tpm": 200})
		require.NoError(t, err)
		db.SetFaults(after10ms)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 100 { // one queues while the last is in flight, always
				go func() { _, _ = l.Acquire(t.Context(), "u", "m", Amounts{"tpm": 1}) }()
				<-time.After(5 * time.Millisecond)
			}
		}()
		<-time.After(12 * time.Millisecond)
		left, err := l.Available(t.Context(), "u", "m")
		require.NoError(t, err)
		began := time.Now()
		_, err = l.Acquire(t.Context(), "u", "m", Amounts{"tpm": left["tpm"]}) // what is in flight is not known yet
		assert.ErrorIs(t, err, ErrLimitExceeded)
		assert.Less(t, time.Since(began), 50*time.Millisecond)
		<-done
		synctest.Wait()
	})
}
