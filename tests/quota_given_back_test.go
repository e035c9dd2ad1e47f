package tests

import (
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// losesFirst loses the answer to the first write of a bucket, after something else was done.
type losesFirst struct {
	*process
	meanwhile func()
	lost      bool
}

func (l *losesFirst) Do(r *http.Request) (*http.Response, error) {
	answer, err := l.db.Do(r)
	if !l.lost && strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".UpdateItem") {
		l.lost = true
		l.meanwhile()
		return nil, syscall.ECONNRESET
	}
	return answer, err
}

// A take whose answer is lost, and that the bucket shows after another process has opened the
// next window, was taken in the window in which it landed: given back, it fills nothing.
func TestLostAnswerOfAQuotaIsOfItsOwnWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		s.limits(admin.Scope{Everyone: true}, dynalimit.Limit{Name: "usd", Capacity: 100, Window: "hour"})
		s.inSlot(0).acquire("key", dynalimit.Amounts{"usd": 1})
		<-time.After(time.Hour - 50*time.Millisecond)
		taker := s.wired(nil, &losesFirst{process: s, meanwhile: func() {
			<-time.After(100 * time.Millisecond)
			s.acquire("key", dynalimit.Amounts{"usd": 60})
		}}).inSlot(1)
		lease := taker.acquire("key", dynalimit.Amounts{"usd": 30})
		require.NoError(t, lease.Rollback(t.Context()))
		assert.EqualValues(t, 40, s.level("key", "usd"), "of 100 of this hour 60 are taken")
		assert.EqualValues(t, 61_000, s.stored("key", "usd").Consumed)
	})
}

// Of two leases that are given back at once, one of a window that ended with a change of the
// unit and one of the window in force, the second fills what it took.
func TestGiveBacksOfTwoUnitsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		quota := dynalimit.Limit{Name: "usd", Capacity: 100, Window: "hour"}
		s.limits(admin.Scope{Everyone: true}, quota)
		before := s.acquire("key", dynalimit.Amounts{"usd": 10})
		quota.Window = "day"
		s.limits(admin.Scope{Everyone: true}, quota)
		<-time.After(2 * time.Minute)
		since := s.acquire("key", dynalimit.Amounts{"usd": 20})
		s.slowly(50*time.Millisecond, 0)
		var group sync.WaitGroup
		group.Go(func() { s.acquire("key", dynalimit.Amounts{"usd": 1}) })
		synctest.Wait()
		for _, lease := range []*dynalimit.Lease{since, before} {
			group.Go(func() { assert.NoError(t, lease.Rollback(t.Context())) })
			synctest.Wait()
		}
		group.Wait()
		assert.EqualValues(t, 89, s.level("key", "usd"), "10 of the hour and 1 are used")
		assert.EqualValues(t, 1000, s.stored("key", "usd").Consumed)
	})
}

// A lease of a process whose clock is behind gives back to the window that it took from: where
// another process has opened the next one, that fills nothing.
func TestGiveBackByAClockThatIsBehind(t *testing.T) {
	s := newProcess(t, memEngine(t), nil)
	s.limits(admin.Scope{Everyone: true}, dynalimit.Limit{Name: "usd", Capacity: 100, Window: "hour"})
	s.advanceTo("2099-01-23T19:59:59.500Z")
	ahead := newHandClock()
	ahead.ms.Store(s.clock.ms.Load() + 1000)
	other := s.peer(nil, ahead)
	lease := s.acquire("key", dynalimit.Amounts{"usd": 30})
	other.acquire("key", dynalimit.Amounts{"usd": 60})
	require.NoError(t, lease.Rollback(t.Context()))
	assert.EqualValues(t, 40, other.level("key", "usd"), "of 100 of this hour 60 are taken")
	assert.EqualValues(t, 60_000, s.stored("key", "usd").Consumed)
}

// A window that a grant has opened is not opened again by who has not seen it: the grant moves
// no refill instant, and what was taken since would be there again.
func TestWindowThatAGrantOpened(t *testing.T) {
	s := newProcess(t, memEngine(t), nil)
	s.limits(admin.Scope{Everyone: true}, dynalimit.Limit{Name: "usd", Capacity: 100, Window: "hour"})
	s.advanceTo("2099-01-23T19:50:00Z")
	s.acquire("key", dynalimit.Amounts{"usd": 10})
	s.advanceTo("2099-01-23T20:00:00Z")
	_, err := s.repo.admin().Buckets.GrantWindow(t.Context(), "key", model, "", dynalimit.Amounts{"usd": 50})
	require.NoError(t, err)
	s.peer(nil).acquire("key", dynalimit.Amounts{"usd": 145})
	assert.EqualValues(t, 5, s.deny("key", dynalimit.Amounts{"usd": 50}).Primary().Remaining)
}
