package budget

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"

	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
	"github.com/dynalimit/dynalimit/prices"
)

// soak is everything at once: two nodes, hard quotas of every period, faults,
// days that pass, zones that change, callers that give up, die, or send twice.
type soak struct {
	*world
	org Org

	mu    sync.Mutex
	rng   *rand.Rand
	late  chan struct{} // what was sent late lands when it is closed
	lates int
	acked map[string]bool // app and request id
}

func (s *soak) n(limit int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(limit)
}

// TestSoak: in the end every counter holds what its records say, and every acknowledged
// record is there.
// DYNALIMIT_SOAK is how many seeds are played; 2 when it is not set.
func TestSoak(t *testing.T) {
	seeds := 2
	if set, err := strconv.Atoi(os.Getenv("DYNALIMIT_SOAK")); err == nil {
		seeds = set
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := newSoak(t, uint64(seed))
			together(8, 400, s.step)
			s.rest()
			s.check()
		})
	}
}

func newSoak(t *testing.T, seed uint64) *soak {
	s := &soak{
		world: newWorld(t, func(o *Options) { o.Linger = time.Millisecond }), org: fixtureOrg(),
		rng: rand.New(rand.NewPCG(seed, 7)), late: make(chan struct{}), acked: map[string]bool{},
	}
	if seed%3 == 1 {
		s.org.Scope = ScopeOrg
	}
	s.org.Quotas = map[string]int64{"premium": 2_000_000, "standard": 5_000_000, "economy": 2_000_000}
	s.world.org(s.org)
	s.db.SetFaults(s.fault)
	return s
}

func (s *soak) fault(r *ddbmem.Request) ddbmem.Fault {
	switch r.Operation {
	case "TransactWriteItems", "UpdateItem", "PutItem":
	case "BatchGetItem":
		if s.n(20) == 0 {
			return ddbmem.Fault{Unprocessed: 1}
		}
		return ddbmem.Fault{}
	default:
		return ddbmem.Fault{}
	}
	switch s.n(30) {
	case 0, 1:
		return ddbmem.Fault{Lose: true}
	case 2, 3:
		return ddbmem.Fault{Drop: true}
	case 4:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.lates++; s.lates < 40 {
			return ddbmem.Fault{Late: s.late}
		}
	case 5:
		if r.Operation == "TransactWriteItems" {
			return conflicted
		}
	case 6:
		return ddbmem.Fault{Error: &ddbmem.Error{Code: "ThrottlingException"}}
	case 7:
		return ddbmem.Fault{After: 5 * time.Millisecond}
	}
	return ddbmem.Fault{}
}

// ack notes a record that was acknowledged.
func (s *soak) ack(app string, u prices.Usage, err error) {
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.acked[app+u.RequestID] = true
	}
}

func (s *soak) usage(i int) prices.Usage {
	u := prices.Usage{
		RequestID: uuid(i), Label: s.org.Ordering[s.n(3)],
		Tokens: prices.Tokens{Input: int64(s.n(20_000)), Output: int64(s.n(5_000))},
	}
	if s.n(4) == 0 {
		u.Tags = map[string]string{"user": "u" + strconv.Itoa(s.n(3))}
	}
	return u
}

func (s *soak) step(i int) {
	k := []*Keeper{s.a, s.b}[s.n(2)]
	app, u, ctx := []string{appA, appB}[s.n(2)], s.usage(i), context.Background()
	if s.n(6) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(s.n(4)+1)*time.Millisecond)
		defer cancel()
	}
	switch s.n(12) {
	case 0:
		if s.n(3) == 0 {
			s.clock.Advance(time.Duration(s.n(50_000)) * time.Second)
		} else {
			s.clock.Advance(time.Duration(s.n(70)) * time.Second)
		}
	case 1:
		_, err := k.Submit(ctx, orgO, app, u)
		s.ack(app, u, err)
	case 2: // the same record twice at once, once by each node
		var both sync.WaitGroup
		for _, k := range []*Keeper{s.a, s.b} {
			both.Go(func() {
				_, err := k.Submit(ctx, orgO, app, u)
				s.ack(app, u, err)
			})
		}
		both.Wait()
	case 3:
		_, _ = k.Sweep(ctx, orgO)
	case 4:
		s.put(ctx, k)
	default:
		s.submit(ctx, k, app, u)
	}
}

func (s *soak) put(ctx context.Context, k *Keeper) {
	c := s.org
	c.Shards = 1 + s.n(8)
	_, _ = k.Setup().PutOrg(ctx, c)
}

// submit sends a record as callers do.
func (s *soak) submit(ctx context.Context, k *Keeper, app string, u prices.Usage) {
	send := func(ctx context.Context, k *Keeper) {
		_, err := k.Submit(ctx, orgO, app, u)
		s.ack(app, u, err)
	}
	switch s.n(4) {
	case 0: // from elsewhere, and again
		send(ctx, s.a)
		send(ctx, k)
	case 1: // gives up, and sends it again
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		send(short, k)
		cancel()
		send(context.Background(), k)
	case 2:
		results, err := k.SubmitBatch(ctx, orgO, app, []prices.Usage{u, u})
		for _, r := range results {
			s.ack(app, u, errors.Join(err, r.Err))
		}
	default:
		send(ctx, k)
	}
}

// rest ends the faults and whatever is under way, a day later.
func (s *soak) rest() {
	s.db.SetFaults(nil)
	close(s.late)
	s.db.Wait()
	s.clock.Advance(25 * time.Hour)
	for _, k := range []*Keeper{s.a, s.b} { // what they do in the background
		require.NoError(s.t, k.Close(context.Background()))
	}
	s.b = s.keeper(&Options{})
	for range 2 {
		_, err := s.b.Sweep(s.t.Context(), orgO)
		require.NoError(s.t, err)
	}
}

// countedSum is what records or counters of a scope, label and day come to.
type countedSum struct {
	cost     string
	requests int64
}

func (s *soak) check() {
	assert.Equal(s.t, s.records(), s.counters())
	for key := range s.acked {
		assert.Fail(s.t, "acknowledged and not recorded", key)
	}
}

// records sums the stored records, and takes them off those acknowledged.
func (s *soak) records() map[string]countedSum {
	costs, requests := map[string]money.Picos{}, map[string]int64{}
	for _, item := range s.items("DEDUP#") {
		r, err := ledger.DecodeRecord(item)
		require.NoError(s.t, err)
		key := r.Scope + "|" + r.Label + "|" + r.Day
		costs[key] = costs[key].Add(r.Cost)
		requests[key]++
		parts := strings.Split(store.KeyOf(item).PK, "#")
		delete(s.acked, parts[2]+parts[3])
	}
	return sums(costs, requests)
}

// counters sums the label's days.
func (s *soak) counters() map[string]countedSum {
	costs, requests := map[string]money.Picos{}, map[string]int64{}
	for _, item := range s.items("ORG#") {
		row, err := ledger.DecodeCounter(item)
		require.NoError(s.t, err)
		key := store.KeyOf(item)
		scope, label, ok := strings.Cut(key.PK, "#LABEL#")
		if !ok || !strings.HasPrefix(key.SK, "DAY#") {
			continue
		}
		label, _, _ = strings.Cut(label, "#SH#")
		at := scope + "|" + label + "|" + key.SK[4:12]
		costs[at] = costs[at].Add(row.Cost)
		requests[at] += row.Requests
	}
	return sums(costs, requests)
}

// sums leaves out what comes to nothing.
func sums(costs map[string]money.Picos, requests map[string]int64) map[string]countedSum {
	out := map[string]countedSum{}
	for key, cost := range costs {
		if requests[key] > 0 || !cost.IsZero() {
			out[key] = countedSum{cost.String(), requests[key]}
		}
	}
	return out
}
