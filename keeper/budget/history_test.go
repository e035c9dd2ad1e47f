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
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"

	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
	"github.com/dynalimit/dynalimit/prices"
)

// mortal is a node's client: at one of its writes the node dies, before or
// after the write is applied, and hears nothing any more.
type mortal struct {
	Client
	left  atomic.Int64 // writes until it dies; negative: it does not
	after bool
	dead  atomic.Bool
}

var errDead = syscall.ECONNRESET // it may have been applied

func (m *mortal) write(do func() error) error {
	if m.dead.Load() {
		return errDead
	}
	if m.left.Add(-1) != 0 {
		return do()
	}
	m.dead.Store(true)
	if m.after {
		_ = do()
	}
	return errDead
}

func (m *mortal) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, f ...func(*dynamodb.Options)) (out *dynamodb.TransactWriteItemsOutput, err error) {
	err = m.write(func() error {
		out, err = m.Client.TransactWriteItems(ctx, in, f...)
		return err
	})
	return out, err
}

func (m *mortal) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, f ...func(*dynamodb.Options)) (out *dynamodb.UpdateItemOutput, err error) {
	err = m.write(func() error {
		out, err = m.Client.UpdateItem(ctx, in, f...)
		return err
	})
	return out, err
}

func (m *mortal) Query(ctx context.Context, in *dynamodb.QueryInput, f ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	if m.dead.Load() {
		return nil, errDead
	}
	return m.Client.Query(ctx, in, f...)
}

// historyCall is a model call that happened.
type historyCall struct {
	usage prices.Usage
	cost  money.Picos
	app   string
}

// history is one random run of two nodes.
type history struct {
	t     *testing.T
	rng   *rand.Rand
	mu    sync.Mutex // guards rng in the fault hook
	db    *ddbmem.DB
	org   Org
	nodes [2]*Keeper
	lives [2]*mortal
	calls []historyCall
	late  []chan struct{}
}

func (h *history) n(limit int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rng.IntN(limit)
}

// fault loses, delays, throttles or refuses one write in six.
func (h *history) fault(r *ddbmem.Request) ddbmem.Fault {
	f := ddbmem.Fault{Before: time.Millisecond, After: time.Millisecond}
	if r.Operation != "TransactWriteItems" && r.Operation != "UpdateItem" && r.Operation != "PutItem" {
		return f
	}
	switch h.n(36) {
	case 0:
		f.Drop = true
	case 1, 2:
		f.Lose = true
	case 3:
		f.Error = &ddbmem.Error{Code: "ThrottlingException"}
	case 4:
		if r.Operation == "TransactWriteItems" {
			f.Error = &ddbmem.Error{Code: "TransactionCanceledException", Reasons: []ddbmem.Reason{{Code: "TransactionConflict"}}}
		} else {
			f.Error = &ddbmem.Error{Code: "TransactionConflictException"}
		}
	case 5:
		late := make(chan struct{})
		h.mu.Lock()
		h.late = append(h.late, late)
		h.mu.Unlock()
		f.Late = late
	}
	return f
}

func (h *history) start(i int) {
	m := &mortal{Client: h.db.Client(), after: h.n(2) == 0}
	m.left.Store(-1)
	if h.n(2) == 0 {
		m.left.Store(int64(1 + h.n(12)))
	}
	k, err := New(m, Tables{}, &Options{AllowUnknownApps: true, Principal: tester, Models: fixtureModels, OnEvent: func(context.Context, Event) {}})
	require.NoError(h.t, err)
	h.nodes[i], h.lives[i] = k, m
}

// node is one of the two, a new one in the place of a dead one.
func (h *history) node() (int, *Keeper) {
	i := h.n(2)
	if h.lives[i].dead.Load() {
		require.NoError(h.t, h.nodes[i].Close(context.Background()))
		h.start(i)
	}
	return i, h.nodes[i]
}

func (h *history) newCall() historyCall {
	app := []string{appA, appB}[h.n(2)]
	in, out := int64(h.n(3000)), int64(h.n(1000))
	u := prices.Usage{RequestID: uuid(len(h.calls)), Label: "premium", Tokens: prices.Tokens{Input: in, Output: out}, Time: time.Now()}
	c := historyCall{usage: u, app: app, cost: money.Cost(in, 3_000_000).Add(money.Cost(out, 15_000_000))}
	if h.n(3) == 0 {
		c.usage.Label = "standard"
		c.cost = money.Cost(in, 800_000).Add(money.Cost(out, 4_000_000))
	}
	h.calls = append(h.calls, c)
	return c
}

// record sends a call until it is accepted, as an application must.
func (h *history) record(c historyCall) {
	for try := 0; ; try++ {
		_, k := h.node()
		_, err := k.Submit(h.t.Context(), orgO, c.app, c.usage)
		if err == nil {
			return
		}
		require.True(h.t, isUnavailable(err), "%v", err)
		require.Less(h.t, try, 50)
	}
}

func (h *history) step() {
	ctx := h.t.Context()
	tolerate := func(err error) {
		if err != nil && !isUnavailable(err) && !errors.Is(err, prices.ErrQuotaExceeded) && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrClosed) {
			require.NoError(h.t, err)
		}
	}
	_, k := h.node()
	switch h.n(13) {
	case 0, 1:
		h.record(h.newCall())
	case 2:
		if len(h.calls) > 0 {
			h.record(h.calls[h.n(len(h.calls))])
		}
	case 3, 4, 5, 6:
		h.both()
	case 7, 8:
		h.batch()
	case 9:
		pass(time.Duration(1+h.n(100)) * time.Second)
	case 10:
		if h.n(4) == 0 {
			pass(time.Duration(h.n(20)) * time.Hour)
		}
		_, err := k.Recommend(ctx, orgO, appA)
		tolerate(err)
	case 11:
		h.change(k, tolerate)
	case 12:
		h.mu.Lock()
		late := h.late
		h.late = nil
		h.mu.Unlock()
		for _, c := range late {
			close(c)
		}
		_, err := k.Sweep(ctx, orgO)
		tolerate(err)
	}
}

// both has two processes send one record at once.
func (h *history) both() {
	c := h.newCall()
	var group sync.WaitGroup
	for _, k := range h.nodes {
		group.Go(func() { _, _ = k.Submit(h.t.Context(), orgO, c.app, c.usage) })
	}
	group.Wait()
	h.record(c)
}

// batch sends records together, one of them twice.
func (h *history) batch() {
	calls := []historyCall{h.newCall(), h.newCall()}
	usages := []prices.Usage{calls[0].usage, calls[1].usage, calls[0].usage}
	_, k := h.node()
	_, _ = k.SubmitBatch(h.t.Context(), orgO, calls[0].app, usages[:1])
	_, _ = k.SubmitBatch(h.t.Context(), orgO, calls[1].app, usages[1:2])
	for _, c := range calls {
		h.record(c)
	}
	_, err := k.SubmitBatch(h.t.Context(), orgO, calls[0].app, []prices.Usage{usages[0], usages[2]})
	if err != nil && !isUnavailable(err) && !errors.Is(err, ErrClosed) {
		require.NoError(h.t, err)
	}
}

func (h *history) change(k *Keeper, tolerate func(error)) {
	switch h.n(4) {
	case 0:
		tolerate(adjust(h.t.Context(), k, orgO, appA, Adjustment{Label: "premium", DeltaMicros: int64(h.n(2000) - 1000), Reason: "test"}))
	case 1:
		h.org.Quotas["premium"] = int64(50_000 + h.n(200_000))
	case 2:
		h.org.Shards = 1 + h.n(8)
	case 3:
		h.org.Ordering = [][]string{{"premium", "standard", "economy"}, {"standard", "economy"}}[h.n(2)]
	}
	_, err := k.Setup().PutOrg(h.t.Context(), h.org)
	tolerate(err)
}

// rest lets every late request happen, and has a node that hears everything look around
// once.
func (h *history) rest() {
	for _, k := range h.nodes {
		require.NoError(h.t, k.Close(context.Background()))
	}
	h.db.SetFaults(nil)
	for _, c := range h.late {
		close(c)
	}
	synctest.Wait()
	pass(3 * time.Minute)
	k, err := New(h.db.Client(), Tables{}, &Options{AllowUnknownApps: true, Principal: tester, Models: fixtureModels})
	require.NoError(h.t, err)
	_, err = k.Sweep(h.t.Context())
	require.NoError(h.t, err)
	h.check(k)
	require.NoError(h.t, k.Close(context.Background()))
	h.db.Close()
}

// check: what is recorded is what the calls cost, each once.
func (h *history) check(k *Keeper) {
	w := &world{t: h.t, a: k, tables: Tables{Usage: k.store.Usage}}
	var want, got, adjusted money.Picos
	for _, c := range h.calls {
		want = want.Add(c.cost)
	}
	var d store.Decoder
	for _, item := range w.items("AUDIT#") {
		adjusted = adjusted.Add(d.Picos(item, "change_picos"))
	}
	requests := int64(0)
	for _, item := range w.items("ORG#") {
		row, err := ledger.DecodeCounter(item)
		require.NoError(h.t, err)
		key := store.KeyOf(item)
		if isLabelDay(key) {
			got = got.Add(row.Spend())
			requests += row.Requests
		}
	}
	require.Equal(h.t, want.Add(adjusted).String(), got.String())
	require.Equal(h.t, int64(len(h.calls)), requests)
	require.Len(h.t, w.items("DEDUP#"), len(h.calls))
	require.NoError(h.t, d.Err)
}

func runHistory(t *testing.T, seed uint64) {
	h := &history{t: t, rng: rand.New(rand.NewPCG(seed, 1)), db: ddbmem.New(), org: fixtureOrg()}
	changes := watchChanges(h.db)
	h.org.Quotas["premium"] = 100_000
	if h.n(3) == 0 {
		h.org.Scope = ScopeOrg
	}
	setup, err := New(h.db.Client(), Tables{}, &Options{AllowUnknownApps: true, Principal: tester, Models: fixtureModels})
	require.NoError(t, err)
	require.NoError(t, setup.Setup().CreateTables(t.Context()))
	_, err = setup.Setup().PutOrg(t.Context(), h.org)
	require.NoError(t, err)
	require.NoError(t, setup.Close(t.Context()))
	h.start(0)
	h.start(1)
	h.db.SetFaults(h.fault)
	for range 40 {
		h.step()
	}
	h.rest()
	changes.check(t)
}

// histories are how many are played: DYNALIMIT_HISTORIES, or 100.
func histories(t *testing.T) int {
	t.Helper()
	text := os.Getenv("DYNALIMIT_HISTORIES")
	if text == "" {
		return 100
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// few says that a run is for the race detector: it finds its races in little as well as in
// much, and takes ten times as long.
func few(t *testing.T) bool { return histories(t) <= 10 }

// TestHistories: at rest, what is counted is what the calls cost, each once, and every change
// has its event; whatever was lost, late, refused or killed on the way.
func TestHistories(t *testing.T) {
	for seed := range histories(t) {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runHistory(t, uint64(seed)) })
		}) {
			break
		}
	}
}

// isLabelDay tells a label's day, which every record is in once, from the
// counters of tags.
func isLabelDay(key store.Key) bool {
	return strings.Contains(key.PK, "#LABEL#") && strings.HasPrefix(key.SK, "DAY#")
}
