package cache

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const ttl = time.Minute

var (
	errStore  = errors.New("store down")
	errWrong  = errors.New("what is stored is wrong")
	errAway   = errors.New("store away")
	errNoUse  = errors.New("it is in vain to wait")
	loadTakes = time.Second
)

type name string

func (n name) String() string { return string(n) }

// version is a value that is told from others by its address.
type version struct{ n int }

// store counts its reads, each of which takes a second.
type store struct {
	mu    sync.Mutex
	reads int
	err   error
}

func (s *store) load(context.Context) (*version, error) {
	s.mu.Lock()
	s.reads++
	v, err := &version{s.reads}, s.err
	s.mu.Unlock()
	elapse(loadTakes)
	if err != nil {
		return nil, err
	}
	return v, nil
}

func (s *store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// elapse lets d of the bubble's time go by.
func elapse(d time.Duration) { <-time.After(d) }

func loading(t *testing.T, o Options[*version]) *Loading[name, *version] {
	t.Helper()
	o.Now, o.TTL = time.Now, ttl
	c, err := NewLoading[name](10, o)
	require.NoError(t, err)
	return c
}

// gets asks for a value, which must be of that read and take so long.
func gets(t *testing.T, c *Loading[name, *version], s *store, read int, took time.Duration) {
	t.Helper()
	start := time.Now()
	v, err := c.Get(t.Context(), "a", s.load)
	if assert.NoError(t, err) {
		assert.Equal(t, read, v.n)
	}
	assert.Equal(t, took, time.Since(start))
}

func TestLoadingPastItsTTL(t *testing.T) {
	for title, test := range map[string]struct {
		options Options[*version]
		read    int // the others get, while one reads again
		took    time.Duration
	}{
		"the others use what they have": {Options[*version]{Grace: ttl}, 1, 0},
		"the others wait":               {Options[*version]{Grace: ttl, Wait: true}, 2, loadTakes / 2},
		"nothing has a grace":           {Options[*version]{}, 2, loadTakes / 2},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, s := loading(t, test.options), &store{}
				gets(t, c, s, 1, loadTakes)
				gets(t, c, s, 1, 0)
				elapse(ttl - loadTakes) // it counts from the start of the read
				var wg sync.WaitGroup
				wg.Go(func() { gets(t, c, s, 2, loadTakes) })
				elapse(loadTakes / 2)
				gets(t, c, s, test.read, test.took)
				wg.Wait()
				gets(t, c, s, 2, 0)
			})
		})
	}
}

// A value within its grace serves while no newer one can be read, whether callers
// wait for reads or not; a failed read is not tried again at once.
func TestLoadingUsesItsGrace(t *testing.T) {
	for _, wait := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c, s := loading(t, Options[*version]{Grace: 4 * ttl, Wait: wait}), &store{}
			gets(t, c, s, 1, loadTakes)
			s.fail(errStore)
			elapse(ttl)
			gets(t, c, s, 1, loadTakes)
			gets(t, c, s, 1, 0)
			elapse(MaxRefreshPause)
			gets(t, c, s, 1, loadTakes)
			elapse(4 * ttl)
			_, err := c.Get(t.Context(), "a", s.load)
			require.ErrorIs(t, err, errStore)
			assert.Equal(t, 1, c.Last("a").n, "for whoever can do with an old one")
			assert.Equal(t, 4, s.reads)
		})
	}
}

// A value in use is read again before it ends, by nobody who waits, and once; one that nobody
// asks for is not. A read ahead that fails is not tried again at once, and ends nothing early.
func TestLoadingAhead(t *testing.T) {
	const ahead = ttl / 4
	for _, wait := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c, s := loading(t, Options[*version]{Ahead: ahead, Wait: wait}), &store{}
			gets(t, c, s, 1, loadTakes)
			elapse(ttl - ahead - loadTakes - 1)
			gets(t, c, s, 1, 0)
			elapse(1)
			for range 3 {
				gets(t, c, s, 1, 0) // the first has it read
			}
			elapse(loadTakes)
			synctest.Wait()
			gets(t, c, s, 2, 0)
			assert.Equal(t, 2, s.reads)

			s.fail(errStore)
			elapse(ttl - ahead)
			gets(t, c, s, 2, 0)
			elapse(loadTakes + MaxRefreshPause/2)
			gets(t, c, s, 2, 0)
			assert.Equal(t, 3, s.reads, "it has just failed")
			elapse(MaxRefreshPause)
			gets(t, c, s, 2, 0)
			synctest.Wait()
			assert.Equal(t, 4, s.reads)
			s.fail(nil)
			elapse(ttl)
			gets(t, c, s, 5, loadTakes)
		})
	}
}

// Values that were first read at once are read ahead at instants of their own.
func TestLoadingAheadIsSpread(t *testing.T) {
	const ahead, spread, keys = ttl / 5, ttl / 5, 100
	synctest.Test(t, func(t *testing.T) {
		c, s := loading(t, Options[*version]{Ahead: ahead, Spread: spread}), &store{}
		c.entries, _ = NewRecent[name, entry[*version]](keys)
		ask := func() int {
			for k := range keys {
				_ = c.Ready(t.Context(), name(rune('a'+k)), s.load)
			}
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.reads
		}
		for k := range keys {
			go func() { _, _ = c.Get(t.Context(), name(rune('a'+k)), s.load) }()
		}
		synctest.Wait()
		elapse(ttl - ahead - spread - 1)
		assert.Equal(t, keys, ask(), "none before")
		elapse(spread / 2)
		some := ask()
		assert.Greater(t, some, keys)
		assert.Less(t, some, 2*keys)
		elapse(spread/2 + 1)
		assert.Equal(t, 2*keys, ask(), "all")
		elapse(loadTakes)
	})
}

// What is evicted while it is read ahead is not there again after it.
func TestLoadingAheadOfAnEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := loading(t, Options[*version]{Ahead: ttl / 4}), &store{}
		gets(t, c, s, 1, loadTakes)
		elapse(ttl - 2*loadTakes)
		gets(t, c, s, 1, 0)
		synctest.Wait()
		c.Evict(func(name) bool { return true })
		elapse(2 * loadTakes)
		assert.Nil(t, c.Last("a"))
		gets(t, c, s, 3, loadTakes)
	})
}

// What the store did say is not hidden by what it said before.
func TestLoadingForgetsWhatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := loading(t, Options[*version]{Grace: ttl, Definite: func(err error) bool { return errors.Is(err, errWrong) }}), &store{}
		gets(t, c, s, 1, loadTakes)
		s.fail(errWrong)
		elapse(ttl)
		_, err := c.Get(t.Context(), "a", s.load)
		require.ErrorIs(t, err, errWrong)
		assert.Nil(t, c.Last("a"))
	})
}

// While the store is away nobody waits, and values serve until MaxStale.
func TestLoadingWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away error
		c, s := loading(t, Options[*version]{Grace: ttl, Away: func() error { return away }, MaxStale: time.Hour}), &store{}
		gets(t, c, s, 1, loadTakes)
		away = errAway
		elapse(time.Hour)
		gets(t, c, s, 1, 0)
		_, err := c.Get(t.Context(), "b", s.load)
		require.ErrorIs(t, err, errAway)
		elapse(ttl)
		_, err = c.Get(t.Context(), "a", s.load)
		require.ErrorIs(t, err, errAway)
		assert.Equal(t, 1, s.reads)
		away = nil
		gets(t, c, s, 2, loadTakes)
		assert.Equal(t, Stats{StaleHits: 1, Misses: 4, Loads: 2, Size: 1}, c.Stats())
	})
}

// While reads bring no answer, a value serves until MaxStale, even if it was evicted. One
// caller waits for such a read; the next reads begin beside callers, ever less often.
func TestLoadingWhileReadsAreUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := loading(t, Options[*version]{
			Grace: ttl, MaxStale: time.Hour, Unanswered: func(err error) bool { return errors.Is(err, errStore) },
		}), &store{}
		gets(t, c, s, 1, loadTakes)
		s.fail(errStore)
		elapse(3 * ttl)
		gets(t, c, s, 1, loadTakes)
		for range 600 {
			gets(t, c, s, 1, 0)
			elapse(time.Second)
		}
		assert.Less(t, s.reads, 2+600/15+5, "pauses of a quarter of the TTL at most")
		c.Evict(func(name) bool { return true })
		gets(t, c, s, 1, loadTakes)
		s.fail(nil)
		for range 100 {
			c.Drop("a") // by somebody who sees with each use that it is old
			if v, err := c.Get(t.Context(), "a", s.load); assert.NoError(t, err) && v.n > 1 {
				break
			}
			elapse(loadTakes / 4)
		}
		gets(t, c, s, s.reads, 0)
		s.fail(errStore)
		elapse(ttl + time.Hour)
		_, err := c.Get(t.Context(), "a", s.load)
		require.ErrorIs(t, err, errStore)
		s.fail(errWrong)
		_, err = c.Get(t.Context(), "a", s.load)
		require.ErrorIs(t, err, errWrong)
	})
}

// A clock that is set back makes a value old, but not too old to serve while it cannot be
// read.
func TestLoadingAfterAClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := loading(t, Options[*version]{MaxStale: time.Hour, Unanswered: func(err error) bool { return errors.Is(err, errStore) }}), &store{}
		gets(t, c, s, 1, loadTakes)
		c.Now = func() time.Time { return time.Now().Add(-10 * time.Minute) }
		assert.Nil(t, c.Fresh("a"))
		s.fail(errStore)
		gets(t, c, s, 1, loadTakes)
		c.Away = func() error { return errAway }
		gets(t, c, s, 1, 0)
	})
}

// unansweredLast is a cache whose value is past its TTL, and whose last read brought no answer.
func unansweredLast(t *testing.T) (*Loading[name, *version], *store) {
	t.Helper()
	c, s := loading(t, Options[*version]{MaxStale: time.Hour, Unanswered: func(err error) bool { return errors.Is(err, errStore) }}), &store{}
	gets(t, c, s, 1, loadTakes)
	s.fail(errStore)
	elapse(ttl)
	gets(t, c, s, 1, loadTakes)
	return c, s
}

// An answer that is an error ends what no answer allowed.
func TestLoadingAfterAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := unansweredLast(t)
		s.fail(errWrong)
		elapse(ttl / 4)
		gets(t, c, s, 1, 0) // a read begins beside it
		elapse(2 * loadTakes)
		_, err := c.Get(t.Context(), "a", s.load)
		require.ErrorIs(t, err, errWrong)
	})
}

// Who asks first long after a read that brought no answer waits for a new one: the store
// answers again, and the value may have been changed.
func TestLoadingLongAfterAnUnansweredRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := unansweredLast(t)
		elapse(ttl)
		gets(t, c, s, 1, 0) // a read begins beside it
		elapse(2 * ttl)
		gets(t, c, s, 1, loadTakes)
		s.fail(nil)
		elapse(2 * ttl)
		gets(t, c, s, s.reads+1, loadTakes)
	})
}

// Who has a value waits for a newer one during half of its time, and 200 ms at least.
func TestLoadingLeavesTimeToCallers(t *testing.T) {
	for within, wait := range map[time.Duration]time.Duration{time.Second: time.Second / 2, 300 * time.Millisecond: 200 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			c, s := loading(t, Options[*version]{MaxStale: time.Hour}), &store{}
			gets(t, c, s, 1, loadTakes)
			elapse(ttl)
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			began := time.Now()
			v, err := c.Get(ctx, "a", s.load)
			require.NoError(t, err)
			assert.Equal(t, 1, v.n)
			assert.Equal(t, wait, time.Since(began))
			short, end := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer end()
			_, err = c.Get(short, "a", s.load)
			require.ErrorIs(t, err, context.DeadlineExceeded, "an old value is for those who were not answered")
			elapse(2 * loadTakes)
			gets(t, c, s, 2, 0)
		})
	}
}

// A caller leaves a read that is in vain, with the value at hand if there is one; the
// read goes on and is kept.
func TestLoadingLeavesAReadInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone, told := make(chan struct{}), []bool{}
		c, s := loading(t, Options[*version]{Grace: ttl, Wait: true, Leave: func(held bool) (<-chan struct{}, func() error) {
			told = append(told, held)
			return gone, func() error { return errNoUse }
		}}), &store{}
		gets(t, c, s, 1, loadTakes)
		elapse(ttl)
		go func() {
			elapse(loadTakes / 4)
			close(gone)
		}()
		gets(t, c, s, 1, loadTakes/4)
		_, err := c.Get(t.Context(), "b", s.load)
		require.ErrorIs(t, err, errNoUse)
		elapse(2 * loadTakes) // the read that was left ends
		assert.Equal(t, 2, c.Fresh("a").n)
		assert.Equal(t, 3, c.Fresh("b").n)
		assert.Equal(t, []bool{false, true, false}, told)
	})
}

func TestLoadingNeedsASize(t *testing.T) {
	_, err := NewLoading[name](0, Options[*version]{})
	assert.Error(t, err)
}

// A caller who saw that a value was old finds it fresh once another has read it.
func TestLoadingIsNotReadAgainJustAfterARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := loading(t, Options[*version]{Grace: ttl}), &store{}
		gets(t, c, s, 1, loadTakes)
		elapse(ttl)
		require.Nil(t, c.Fresh("a"), "this caller has seen it old")
		gets(t, c, s, 2, loadTakes)
		v, how := c.findStale("a")
		assert.Equal(t, useOld, how)
		assert.Equal(t, 2, v.value.n)
	})
}

// Values that match go; reads under way go too, because it is not known what they bring,
// and who asks next reads again, whatever else is kept.
func TestLoadingEvictsByValue(t *testing.T) {
	all := func(name) bool { return true }
	odd := func(v *version) bool { return v.n%2 == 1 }
	synctest.Test(t, func(t *testing.T) {
		c, s := loading(t, Options[*version]{Grace: ttl}), &store{}
		gets(t, c, s, 1, loadTakes)
		c.EvictValues(func(k name) bool { return k != "a" }, odd)
		gets(t, c, s, 1, 0)
		c.EvictValues(all, odd)
		gets(t, c, s, 2, loadTakes)
		c.EvictValues(all, odd)
		gets(t, c, s, 2, 0)
		assert.Equal(t, int64(1), c.Stats().Evictions)

		elapse(ttl)
		old := make(chan *version)
		go func() {
			v, _ := c.Get(t.Context(), "a", s.load)
			old <- v
		}()
		synctest.Wait()
		c.EvictValues(all, odd)
		gets(t, c, s, 4, loadTakes) // not the third, which began before
		assert.Equal(t, 3, (<-old).n)
		gets(t, c, s, 4, 0)
	})
}

// A forced read does not join one that began before it.
func TestLoadingReloadsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := loading(t, Options[*version]{Grace: ttl}), &store{}
		go gets(t, c, s, 1, loadTakes)
		synctest.Wait()
		v, err := c.Reload(t.Context(), "a", s.load)
		require.NoError(t, err)
		assert.Equal(t, 2, v.n)
	})
}

// A value that is dropped by its key alone does not come back from a read in flight.
func TestLoadingDropsTheReadOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := loading(t, Options[*version]{Grace: ttl}), &store{}
		for _, key := range []name{"a", "b"} {
			go func() { _, _ = c.Get(t.Context(), key, s.load) }()
		}
		synctest.Wait()
		c.Drop("a")
		elapse(2 * loadTakes)
		assert.Nil(t, c.Fresh("a"))
		assert.NotNil(t, c.Fresh("b"))
	})
}
