package ddb

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// table is a breaker whose probes answer what the test says.
type table struct {
	*Breaker
	mu      sync.Mutex
	answers error // of probes
	probes  []time.Time
	takes   time.Duration
	busy    int
	changes []State
	log     bytes.Buffer
}

func newTable(t *testing.T) *table {
	tb := &table{answers: errUnheard}
	tb.Breaker = NewBreaker(BreakerOptions{
		Probe: func(ctx context.Context) error {
			tb.mu.Lock()
			tb.probes = append(tb.probes, time.Now())
			tb.busy++
			assert.Equal(t, 1, tb.busy, "one at a time")
			takes := tb.takes
			tb.mu.Unlock()
			Sleep(ctx, takes)
			tb.mu.Lock()
			defer tb.mu.Unlock()
			tb.busy--
			return tb.answers
		},
		Logger: slog.New(slog.NewTextHandler(&tb.log, nil)),
		OnChange: func(s State) {
			tb.State() // no lock is held
			tb.mu.Lock()
			defer tb.mu.Unlock()
			tb.changes = append(tb.changes, s)
		},
	})
	return tb
}

func (tb *table) probed() []time.Time {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return append([]time.Time(nil), tb.probes...)
}

func (tb *table) wakes(err error) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.answers = err
}

// errUnheard is a connection that broke.
var errUnheard = &net.OpError{Op: "read", Err: syscall.ECONNRESET}

// fail is a request that takes a second and gets no answer.
func (tb *table) fail() {
	c := tb.Begin()
	<-time.After(time.Second)
	c.End(Classify(errUnheard, context.Background()))
}

func TestBreakerOpensAndClosesByProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		opened, closed := tb.Opened(), tb.Closed()
		assert.True(t, isClosed(closed))
		assert.Equal(t, State{}, tb.State())
		tb.fail()
		synctest.Wait()
		s := tb.State()
		assert.True(t, s.Open)
		assert.False(t, s.EverAnswered)
		assert.Equal(t, time.Now(), s.Since)
		assert.ErrorIs(t, s.Cause, syscall.ECONNRESET)
		assert.Equal(t, 1, s.Probes, "at once")
		assert.True(t, isClosed(opened))
		closed = tb.Closed()
		assert.False(t, isClosed(closed))
		assert.Equal(t, time.Until(s.NextProbe), tb.RetryAfter())

		tb.wakes(errors.New("condition failed"))
		tb.wakes(nil)
		<-closed
		assert.False(t, tb.State().Open)
		assert.True(t, tb.State().EverAnswered)
		assert.False(t, isClosed(tb.Opened()), "a new channel")
		assert.Equal(t, uint64(1), tb.CountOutages())
		assert.Equal(t, time.Now(), tb.LastAnswer())
		assert.Zero(t, tb.RetryAfter())
		synctest.Wait()
		require.Len(t, tb.changes, 2)
		assert.True(t, tb.changes[0].Open)
		assert.False(t, tb.changes[1].Open)
		assert.Equal(t, 2, strings.Count(tb.log.String(), "\n"), "one line for each: %s", tb.log.String())
	})
}

func TestProbesKeepTheirSchedule(t *testing.T) {
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			tb := newTable(t)
			tb.takes = time.Second
			tb.fail()
			began := time.Now()
			<-time.After(90 * time.Second)
			probes := tb.probed()
			assert.Equal(t, began, probes[0])
			for i, bound := range []int{500, 1000, 2000, 4000, 8000, 10_000, 10_000} {
				most := time.Duration(bound) * time.Millisecond
				wait := probes[i+1].Sub(probes[i]) - tb.takes
				assert.GreaterOrEqual(t, wait, most/2, "probe %d", i+1)
				assert.LessOrEqual(t, wait, most, "probe %d", i+1)
			}
			tb.wakes(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})
			<-time.After(20 * time.Second)
			assert.True(t, tb.State().Open)
			tb.wakes(api("AccessDeniedException")) // any answer is one
			<-time.After(20 * time.Second)
			assert.False(t, tb.State().Open)
			tb.Stop()
		})
	}
}

func TestRequestThatIsAnsweredClosesAndEndsTheProbes(t *testing.T) {
	for _, answer := range []func(Call){Call.Answer, func(c Call) { c.End(Classify(api("ThrottlingException"), t.Context())) }} {
		synctest.Test(t, func(t *testing.T) {
			tb := newTable(t)
			tb.fail()
			<-time.After(5 * time.Second)
			answer(tb.Begin())
			assert.False(t, tb.State().Open)
			assert.Len(t, tb.changes, 2, "both are told")
			before := len(tb.probed())
			<-time.After(time.Minute)
			assert.Len(t, tb.probed(), before)
		})
	}
}

func TestStopEndsTheProbesAndForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		c := tb.Begin()
		tb.fail()
		closed := tb.Closed()
		tb.Stop()
		<-closed
		synctest.Wait() // and no goroutine is left, or the bubble deadlocks
		assert.False(t, tb.State().Open)
		assert.Zero(t, tb.CountOutages(), "nothing was answered")
		assert.Len(t, tb.changes, 1, "nothing to tell")
		c.End(Classify(errUnheard, t.Context()))
		assert.False(t, tb.State().Open, "it began before")
		tb.fail()
		assert.False(t, tb.State().Open, "nobody needs it")
		c = tb.Begin()
		tb.Stop()
		tb.Start()
		<-time.After(time.Second)
		c.End(Classify(errUnheard, t.Context()))
		assert.False(t, tb.State().Open, "it began before")
		tb.fail()
		assert.True(t, tb.State().Open, "it began later")
		tb.Stop()
	})
}

func TestStopDuringAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		tb.takes = time.Hour
		tb.fail()
		synctest.Wait()
		require.Len(t, tb.probed(), 1)
		tb.wakes(nil)
		tb.Stop()
		synctest.Wait()
		assert.Zero(t, tb.CountOutages())
	})
}

func TestFlappingTableIsAskedEverLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		tb.opts.Chance = func() float64 { return 0.5 }
		for range 6 {
			tb.fail()
			synctest.Wait() // a probe may begin before the answer
			tb.Begin().End(Diagnosis{Answered: true})
		}
		tb.fail()
		<-time.After(30 * time.Second)
		probes := tb.probed()
		tb.Stop()
		assert.Len(t, probes, 8)
	})
}

func TestBreakerWithoutProbeClosesByRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBreaker(BreakerOptions{})
		c := b.Begin()
		<-time.After(time.Second)
		c.End(Diagnosis{Silent: true})
		assert.True(t, b.State().Open)
		b.Begin().End(Diagnosis{Answered: true})
		assert.False(t, b.State().Open)
	})
}

func TestNoBreakerIsAlwaysClosed(t *testing.T) {
	var b *Breaker
	d := Diagnosis{Silent: true, Verdict: Unconfirmed}
	assert.Equal(t, d, b.Begin().End(d))
	assert.Equal(t, State{}, b.State())
	assert.True(t, isClosed(b.Closed()))
	assert.False(t, isClosed(b.Opened()))
	assert.Zero(t, b.RetryAfter())
	assert.Zero(t, b.CountOutages())
	assert.Zero(t, b.LastAnswer())
	b.Stop()
}

// guarded is a client whose breaker hears of every request.
func guarded(w wire, change ...func(*dynamodb.Options)) *Client {
	b := NewBreaker(BreakerOptions{})
	return Watch(clientOn(w, change...), b, NewClock(time.Now, false), time.Second)
}

func TestWhatOpensATable(t *testing.T) {
	for name, kind := range errorKinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := guarded(kind.wire, kind.change...)
				for range 3 {
					_ = write(t.Context(), c)
				}
				assert.Equal(t, kind.flags&silent != 0, c.breaker.State().Open)
			})
		})
	}
	t.Run("hang", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := guarded(hangs)
			_ = write(t.Context(), c)
			assert.True(t, c.breaker.State().Open)
		})
	})
	t.Run("a caller's 5 ms", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := guarded(hangs)
			for range 300 {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
				_ = write(ctx, c)
				cancel()
			}
			assert.False(t, c.breaker.State().Open)
		})
	})
}

func TestOneSickPartitionDoesNotOpenTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sick := clientOn(hangs)
		c := guarded(refuses(400, "ConditionalCheckFailedException"))
		partition := *c
		partition.api = sick
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { _ = write(t.Context(), &partition) })
			<-time.After(100 * time.Millisecond)
			_ = write(t.Context(), c) // of another partition
			assert.False(t, c.breaker.State().Open)
		}
		all.Go(func() { _ = write(t.Context(), &partition) })
		all.Wait()
		assert.True(t, c.breaker.State().Open, "now nothing is answered")
	})
}

// A client in haste lets the first probe have its moment, then sends nothing.
func TestHastyClientSendsNothingInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		c := guarded(func(r *http.Request) (*http.Response, error) {
			sent++
			return breaks(syscall.ECONNRESET)(r)
		}).FailFast()
		for range 3 {
			require.False(t, IsOpen(write(t.Context(), c)))
		}
		require.True(t, c.breaker.State().Open)
		assert.False(t, IsOpen(write(t.Context(), c)), "in the first moment")
		assert.Equal(t, 4, sent)
		<-time.After(lastingAfter)
		synctest.Wait()
		err := write(t.Context(), c)
		assert.True(t, IsOpen(err))
		assert.Equal(t, 4, sent)
		d := Classify(err, t.Context())
		assert.Equal(t, Unsent.String(), d.Verdict.String())
		assert.Positive(t, d.RetryAfter)
		assert.False(t, d.Silent, "it says nothing new")
		c.breaker.Begin().End(Diagnosis{Answered: true})
		assert.False(t, IsOpen(write(t.Context(), c)))
		assert.Equal(t, 5, sent)
	})
}

func TestEachTableHasItsBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := NewBreaker(BreakerOptions{})
		c := guarded(hangs).WithTable("other", other)
		_ = write(t.Context(), c)
		assert.True(t, c.breaker.State().Open)
		assert.False(t, other.State().Open)
		table := "other"
		for name, request := range map[string]func() error{
			"GetItem": func() error {
				_, err := c.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: someKey})
				return err
			},
			"BatchGetItem": func() error {
				_, err := c.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{table: {Keys: []Item{someKey}}}})
				return err
			},
			"TransactWriteItems": func() error {
				_, err := c.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{{Put: &types.Put{TableName: &table, Item: someKey}}}})
				return err
			},
		} {
			require.Error(t, request())
			assert.True(t, other.State().Open, name)
			other.Begin().End(Diagnosis{Answered: true})
		}
	})
}
