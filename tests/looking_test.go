package tests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/observe"
)

// reads are the consistent reads of a bucket among a meter's.
func reads(m ddbmem.Meter) int64 { return m.Operations["GetItem"].Requests }

// A bucket that is scarce, and that others take from, is looked at before it is
// written when what is known of it is old: a denial costs a read, no write.
func TestScarceBucketIsLookedAtBeforeItIsWritten(t *testing.T) {
	s := memProcess(t, perDay(86_400)) // a token a second
	other := s.peer(perDay(86_400))
	s.acquire("user-1", dynalimit.Amounts{"tpm": 1})
	other.acquire("user-1", dynalimit.Amounts{"tpm": 86_399})
	s.deny("user-1", dynalimit.Amounts{"tpm": 1}) // met what the other took
	for range 3 {
		s.clock.advance(5 * time.Second)
		other.acquire("user-1", dynalimit.Amounts{"tpm": 5})
		used := s.used(func() {
			denial := s.deny("user-1", dynalimit.Amounts{"tpm": 2})
			assert.Equal(t, 2*time.Second, denial.RetryAfter)
		})
		assert.Equal(t, int64(1), reads(used))
		assert.Zero(t, writes(used))
	}
	s.clock.advance(5 * time.Second)
	used := s.used(func() { s.acquire("user-1", dynalimit.Amounts{"tpm": 5}) })
	assert.Equal(t, int64(1), reads(used))
	assert.Equal(t, int64(1), writes(used), "what fits is written")

	s.clock.advance(2 * time.Second)
	used = s.used(func() { s.acquire("user-1", dynalimit.Amounts{"tpm": 1}) })
	assert.Equal(t, int64(1), writes(used))
	assert.Equal(t, int64(1), reads(used), "nearly empty is scarce too")
	s.clock.advance(time.Second)
	used = s.used(func() { s.acquire("user-1", dynalimit.Amounts{"tpm": 1}) })
	assert.Zero(t, reads(used), "what is known is a second old at most")
	s.clock.advance(time.Minute)
	used = s.used(func() { s.acquire("user-1", dynalimit.Amounts{"tpm": 1}) })
	assert.Zero(t, reads(used), "nobody else was seen for a minute")
}

// A transaction, which costs twice the units, looks too.
func TestTransactionLooksAtAScarceBucket(t *testing.T) {
	opts := perDay(86_400)
	opts.Cascade = dynalimit.CascadeTransaction
	s := memProcess(t, opts)
	s.family("key", "project")
	other := s.peer(perDay(86_400))
	s.acquire("project", dynalimit.Amounts{"tpm": 1})
	other.acquire("project", dynalimit.Amounts{"tpm": 86_399})
	s.deny("project", dynalimit.Amounts{"tpm": 1})
	s.acquire("key", dynalimit.Amounts{"tpm": 0})
	s.clock.advance(5 * time.Second)
	other.acquire("project", dynalimit.Amounts{"tpm": 5})
	used := s.used(func() { s.deny("key", dynalimit.Amounts{"tpm": 2}) })
	assert.Zero(t, writes(used))
}

// What did not fit when the bucket was asked is denied: with what is refilled while a
// read is under way, half of the looks would fit, and be written in vain.
func TestLookDeniesWhatDidNotFitWhenItWasSent(t *testing.T) {
	s := memProcess(t, perDay(86_400))
	other := s.peer(perDay(86_400))
	s.acquire("user-1", dynalimit.Amounts{"tpm": 1})
	other.acquire("user-1", dynalimit.Amounts{"tpm": 86_399})
	s.deny("user-1", dynalimit.Amounts{"tpm": 1})
	s.clock.advance(5 * time.Second)
	other.acquire("user-1", dynalimit.Amounts{"tpm": 5})
	s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
		if r.Operation == "GetItem" {
			s.clock.advance(time.Second)
		}
		return ddbmem.Fault{}
	})
	used := s.used(func() { s.deny("user-1", dynalimit.Amounts{"tpm": 1}) })
	assert.Zero(t, writes(used))
	assert.Equal(t, int64(1), reads(used))
}

// After throttling a scarce bucket is looked at, however young what is known of it is.
func TestThrottledLaneLooksAtAScarceBucket(t *testing.T) {
	virtual(t, perDay(86_400), func(t *testing.T, s *process) {
		other := s.peer(perDay(86_400))
		s.acquire("user-1", dynalimit.Amounts{"tpm": 1})
		other.acquire("user-1", dynalimit.Amounts{"tpm": 86_300})
		s.acquire("user-1", dynalimit.Amounts{"tpm": 90}) // 9 are left
		s.db.SetFaults(firstOf("UpdateItem", 1, throttled1))
		used := s.used(func() { s.acquire("user-1", dynalimit.Amounts{"tpm": 1}) })
		assert.Equal(t, int64(1), reads(used))
		assert.Equal(t, int64(2), writes(used))

		s.recovers()
		plenty := s.peer(perDay(86_400))
		plenty.acquire("user-2", dynalimit.Amounts{"tpm": 1})
		s.acquire("user-2", dynalimit.Amounts{"tpm": 1})
		s.db.SetFaults(firstOf("UpdateItem", 1, throttled1))
		used = s.used(func() { s.acquire("user-2", dynalimit.Amounts{"tpm": 1}) })
		assert.Zero(t, reads(used), "not at one that is full")
	})
}

// Reads that are throttled back off as writes do, and fail nobody before the time is
// over.
func TestThrottledReadsBackOff(t *testing.T) {
	virtual(t, perDay(86_400), func(t *testing.T, s *process) {
		other := s.peer(perDay(86_400))
		s.acquire("user-1", dynalimit.Amounts{"tpm": 1})
		other.acquire("user-1", dynalimit.Amounts{"tpm": 86_399})
		s.deny("user-1", dynalimit.Amounts{"tpm": 1})
		s.clock.advance(5 * time.Second)
		until := time.Now().Add(900 * time.Millisecond)
		s.db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
			if r.Operation == "GetItem" && time.Now().Before(until) {
				return throttled1
			}
			return ddbmem.Fault{}
		})
		used := s.used(func() { s.acquire("user-1", dynalimit.Amounts{"tpm": 1}) })
		assert.LessOrEqual(t, reads(used), int64(10), "the SDK sends none again of its own")
		assert.GreaterOrEqual(t, reads(used), int64(6))
		hot := s.limiter.Health().Hottest
		require.Len(t, hot, 1)
		assert.Equal(t, observe.ReadsThrottled, hot[0].Why)
		assert.Zero(t, hot[0].Interval)
		assert.False(t, s.limiter.Health().Open)

		s.clock.advance(5 * time.Second)
		s.db.SetFaults(firstOf("GetItem", -1, throttled1))
		began := time.Now()
		_, err := s.limiter.Acquire(t.Context(), "user-1", model, dynalimit.Amounts{"tpm": 1})
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		assert.Equal(t, 2*time.Second, time.Since(began))
	})
}
