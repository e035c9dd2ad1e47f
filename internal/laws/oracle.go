package laws

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/call"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/laws/rules"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/store"
)

// sentWrite is the part of one operation for one bucket.
type sentWrite struct {
	sums plan.Rows
	// ops are the callers' parts; none for a transaction.
	ops []*lane.Op
	// calls are the callers' parts as of the request.
	calls []part
	// decided is the instant of the decision, in true time.
	decided     int64
	transaction bool
	stake       *stake // of a transaction
	// tells means that it is a pending update. Its late amounts are on the counter alone, and no caller holds
	// them.
	tells bool
	// granted means that the client learnt that it had landed. left means that the call no longer waited for
	// it, so that it is given back.
	granted, left bool
	// refused means that the client's last try of it was refused.
	refused  bool
	landings int
	// landedIn are the incarnations of the bucket in which it landed.
	landedIn []int
	// debited is its prefetch, lapsed the lapsed tokens that it takes off the counter.
	debited, lapsed []plan.Signed
	// clashes counts the earlier refusals of the client at full by the bucket.
	clashes int
}

// sentKey identifies a write. A transaction has one operation for several buckets.
type sentKey struct {
	operation uint64
	entity    string
}

// oracle records the requests of clients and the committed writes, in order, for the judgement at the end.
type oracle struct {
	mu   sync.Mutex
	sent map[sentKey]*sentWrite
	// requests are the writes of each request, by its number.
	requests map[int64]carried
	// owed are the give-backs of an entity's limit without a named lease: pending updates, and the amounts of
	// callers that had left.
	owed map[string]int64
	// uncounted are the amounts to come off counters, by entity and limit.
	uncounted map[string]int64
	writes    []ddbmem.Write
	// served are the calls admitted from memory, strange the errors in them.
	served  []*served
	strange []string
	// fillings are administrators' changes of buckets, by the request.
	fillings map[int64]*filling
	// configs are the fingerprints in force for an entity, each from an instant on.
	configs map[string][]configSince
	// unread are the instants, in ms, of unanswered reads of configurations. After one an old configuration
	// serves.
	unread []int64
}

type configSince struct {
	at          int64
	fingerprint string
}

// newOracle returns an oracle that has recorded nothing.
func newOracle() *oracle {
	return &oracle{sent: map[sentKey]*sentWrite{}, requests: map[int64]carried{}, owed: map[string]int64{}, uncounted: map[string]int64{}, fillings: map[int64]*filling{}, configs: map[string][]configSince{}}
}

// recordCommit records a committed write of a bucket, or the record of an administrator's operation, for the
// judge. An unreadable record becomes a violation. The store calls it for every write; it takes o.mu.
func (o *oracle) recordCommit(w ddbmem.Write) {
	item := w.New
	if item == nil {
		item = w.Old
	}
	sk := schema.KeyOf(item).SK
	o.mu.Lock()
	defer o.mu.Unlock()
	if strings.HasPrefix(sk, "#OPERATION#") && w.Old == nil {
		f, err := decodeFilling(w.New)
		if o.fillings[w.RequestSeq] = f; err != nil {
			o.strange = append(o.strange, fmt.Sprintf("an operation that cannot be read: %v", err))
		}
	}
	if !strings.HasPrefix(sk, "#BUCKET#") {
		return
	}
	o.writes = append(o.writes, w)
}

// listenTo sets the hooks of a limiter's lanes and transactions, and wraps their store. The oracle then records
// each sent write with its outcome, each pending update, and each call admitted from memory.
func (o *oracle) listenTo(desk *call.Desk) {
	lanes := desk.Lanes
	met := &clashes{by: map[string]int{}}
	lanes.OnSend = func(bucket *lane.Lane, operation uint64, s plan.Rows) {
		w := &sentWrite{sums: slices.Clone(s), decided: time.Now().UnixMilli(), clashes: met.countOf(bucketOfLane(bucket))}
		if len(s) > 0 {
			for _, op := range bucket.Carried() {
				w.ops, w.calls = append(w.ops, op), append(w.calls, partOf(op))
				debited, lapsed := op.PrefetchAmounts()
				w.debited, w.lapsed = append(w.debited, debited...), append(w.lapsed, lapsed...)
			}
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.sent[sentKey{operation, bucketOfLane(bucket)}] = w
	}
	tells := map[string]*sentWrite{}
	lanes.OnTell = func(bucket *lane.Lane, operation uint64, s plan.Rows) {
		w := &sentWrite{sums: slices.Clone(s), decided: time.Now().UnixMilli(), tells: true}
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, n := range s {
			key := bucketOfLane(bucket) + "#" + n.Name
			if o.uncounted[key] += max(0, -n.Late); n.Window != 0 { // one sum includes pending updates of quotas
				o.uncounted[key] = math.MaxInt64 / 4
			}
		}
		if operation != 0 {
			o.sent[sentKey{operation, bucketOfLane(bucket)}] = w
			return
		}
		tells[bucketOfLane(bucket)] = w // one at a time
	}
	lanes.OnOwe = o.recordOwed
	lanes.OnServe = o.recordServed
	find := func(operation uint64, entity string) *sentWrite {
		o.mu.Lock()
		defer o.mu.Unlock()
		if operation == 0 {
			return tells[entity]
		}
		return o.sent[sentKey{operation, entity}]
	}
	lanes.Trace = outcomes{mu: &o.mu}
	lanes.Store = listening{Store: lanes.Store, sent: find, met: met}
	desk.Transact = transactions{next: desk.Transact, sent: find, met: met, mu: &o.mu}.sendRecorded
}

// recordOwed adds amounts without a named lease that a lane is to give back to its bucket later, in
// millitokens. It ignores amounts that come off the counter alone.
func (o *oracle) recordOwed(bucket *lane.Lane, amounts []plan.Signed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range amounts {
		if a.Window < 0 { // it comes off the counter alone
			continue
		}
		o.owed[bucketOfLane(bucket)+"#"+a.Name] += a.Amount
	}
}

// allOwed returns a copy of o.owed: give-backs without a named lease, in millitokens by bucket and limit.
func (o *oracle) allOwed() map[string]int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.owed)
}

// carried are the writes of one request, by the bucket. They travel in the request's context, so that two
// equal changes of a bucket are told apart.
type carried map[string]*sentWrite

type carriedKey struct{}

// withContext returns ctx with the records of a request's writes, so that recordArrival finds them when the
// request reaches the store.
func (c carried) withContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, carriedKey{}, c)
}

// recordArrival records by the request's number which writes it carries, from its context. The store calls it
// before it executes the request.
func (o *oracle) recordArrival(q *ddbmem.Request) {
	if c, _ := q.Context.Value(carriedKey{}).(carried); c != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.requests[q.Seq] = c
	}
}

// delivered is the write that a lane is sending.
type delivered struct{ write *sentWrite }

// outcomes records the outcomes of lanes' writes.
type outcomes struct{ mu *sync.Mutex }

// Begin implements lane.Trace. It prepares the record of a lane's write, which listening.Update fills in, and
// the returned function records whether the write landed or was refused.
func (o outcomes) Begin(ctx context.Context, _ lane.Writing) (context.Context, func(lane.Answer)) {
	d := &delivered{}
	return context.WithValue(ctx, delivered{}, d), func(a lane.Answer) {
		o.mu.Lock()
		defer o.mu.Unlock()
		d.write.granted, d.write.refused = a.Verdict == ddb.Landed, a.Verdict == ddb.Refused
	}
}

// Paced implements lane.Trace. It does nothing, because the laws do not judge the pace of writes.
func (outcomes) Paced(lane.Paced) {}

// listening is a store that records the operations of a lane.
type listening struct {
	lane.Store
	sent func(operation uint64, entity string) *sentWrite
	met  *clashes
}

// Update implements lane.Store. It puts the recorded write into the request's context, returns the store's
// answer unchanged, and counts a refusal at full. The update of a note is not recorded.
func (s listening) Update(ctx context.Context, key schema.Item, st schema.Statement, hint *schema.LimitSet, slot int) lane.Answer {
	d, is := ctx.Value(delivered{}).(*delivered)
	if !is {
		return s.Store.Update(ctx, key, st, hint, slot)
	}
	w := s.sent(operationIn(st.Values), bucketOfItem(key))
	d.write = w
	a := s.Store.Update(carried{bucketOfItem(key): w}.withContext(ctx), key, st, hint, slot)
	if a.Verdict == ddb.Refused {
		s.met.countRefused(bucketOfItem(key), st, a.Image)
	}
	return a
}

// Create implements lane.Store. It puts the recorded write into the request's context, and returns the store's
// answer unchanged.
func (s listening) Create(ctx context.Context, c *schema.Create, hint *schema.LimitSet, slot int) lane.Answer {
	of := bucketOf(c.Entity, c.Resource)
	w := s.sent(binary.BigEndian.Uint64(c.OpID), of)
	ctx.Value(delivered{}).(*delivered).write = w
	return s.Store.Create(carried{of: w}.withContext(ctx), c, hint, slot)
}

// operationIn returns the operation in a write's own id, which is the first value of an update and in every
// slot of a new item. It is 0 for other values.
func operationIn(values schema.Item) uint64 {
	for _, name := range []string{":0", "op0"} {
		if b, ok := values[name].(*types.AttributeValueMemberB); ok && len(b.Value) == rules.OpIDLength {
			return binary.BigEndian.Uint64(b.Value)
		}
	}
	return 0
}

// transactions records the outcomes of transactions.
type transactions struct {
	next store.Transact
	mu   *sync.Mutex
	sent func(operation uint64, entity string) *sentWrite
	met  *clashes
}

// sendRecorded sends a transaction with its recorded writes in the request's context, and returns its answer
// unchanged. It records the outcome and the stake in each of the writes, under s.mu, and counts refusals at
// full.
func (s transactions) sendRecorded(ctx context.Context, t *store.Transaction, slot int) (ddb.Verdict, map[int]*schema.Image, error) {
	writes := carried{}
	for _, item := range t.Items {
		values, key := schema.Item(nil), schema.Item(nil)
		if item.Put != nil {
			values, key = item.Put.Item, item.Put.Item
		} else {
			values, key = item.Update.ExpressionAttributeValues, item.Update.Key
		}
		writes[bucketOfItem(key)] = s.sent(operationIn(values), bucketOfItem(key))
	}
	v, images, err := s.next(writes.withContext(ctx), t, slot)
	for place, image := range images {
		if u := t.Items[place].Update; v == ddb.Refused && u != nil {
			st := schema.Statement{Update: *u.UpdateExpression, Condition: *u.ConditionExpression, Names: u.ExpressionAttributeNames, Values: u.ExpressionAttributeValues}
			s.met.countRefused(bucketOfItem(u.Key), st, image)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range writes {
		w.transaction, w.granted, w.stake = true, v == ddb.Landed, stakeOf(ctx)
		w.left = w.granted && ctx.Done() == nil // its call's time is bounded
	}
	return v, images, err
}

// slotOperation returns the id of the operation that a committed write put into a slot. It
// returns false if no slot changed.
func slotOperation(w ddbmem.Write) (uint64, bool) {
	for slot := range schema.OpSlots {
		name := fmt.Sprintf("op%d", slot)
		after, _ := w.New[name].(*types.AttributeValueMemberB)
		before, _ := w.Old[name].(*types.AttributeValueMemberB)
		if after != nil && len(after.Value) == rules.OpIDLength && (before == nil || string(before.Value) != string(after.Value)) {
			return binary.BigEndian.Uint64(after.Value), true
		}
	}
	return 0, false
}

// recordConfig records that an entity's bucket has the configuration with this fingerprint from the instant at,
// in Unix ms, until the next one recorded.
func (o *oracle) recordConfig(entity, fingerprint string, at int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.configs[entity] = append(o.configs[entity], configSince{at, fingerprint})
}

// recordUnread records that a read of configurations gets no answer now.
func (o *oracle) recordUnread() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unread = append(o.unread, time.Now().UnixMilli())
}

// unreadBetween reports whether a read of configurations got no answer at an instant from `from` to `to`, in
// Unix ms.
func (o *oracle) unreadBetween(from, to int64) bool {
	return slices.ContainsFunc(o.unread, func(at int64) bool { return from <= at && at <= to })
}

// wasInForce reports whether the configuration with a fingerprint was in force for an entity's bucket at any
// time from `from` to `to`, in Unix ms.
func (o *oracle) wasInForce(entity, fingerprint string, from, to int64) bool {
	list := o.configs[entity]
	for i, c := range list {
		until := int64(1) << 62
		if i+1 < len(list) {
			until = list[i+1].at
		}
		if c.fingerprint == fingerprint && c.at <= to && until >= from {
			return true
		}
	}
	return false
}

// served is a call admitted from memory.
type served struct {
	// after counts the writes committed before it. at is its instant, in true time.
	after int
	at    int64
	// from is the lane with the memory, and entity its bucket.
	from   *lane.Lane
	entity string
	stake  *stake
	lane.Served
	// back means that it was put back: no call was admitted.
	back bool
}

// recordServed records a call that a lane served from prefetched tokens. If s.Back, another bucket denied the
// call: it marks the recorded call as put back, and reports a violation of L9 without such a call.
func (o *oracle) recordServed(ctx context.Context, from *lane.Lane, s lane.Served) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !s.Back {
		o.served = append(o.served, &served{len(o.writes), time.Now().UnixMilli(), from, bucketOfLane(from), stakeOf(ctx), s, false})
		return
	}
	for _, e := range slices.Backward(o.served) {
		if !e.back && e.from == from && e.stake == stakeOf(ctx) && e.Sent == s.Sent && slices.Equal(e.Amounts, s.Amounts) {
			e.back = true
			return
		}
	}
	o.served = append(o.served, &served{len(o.writes), time.Now().UnixMilli(), from, bucketOfLane(from), nil, s, true})
	o.strange = append(o.strange, fmt.Sprintf("L9: %v was put back to %s that nobody was served", s.Amounts, bucketOfLane(from)))
}

// prefetchOf returns the millitokens of a limit that a write prefetches, and the lapsed ones that it takes off
// the counter. Both are 0 for a transaction, which is sent outside the lane.
func (w *sentWrite) prefetchOf(name string) (debited, lapsed int64) {
	if w.transaction {
		return 0, 0
	}
	return amountOf(w.debited, name), amountOf(w.lapsed, name)
}

// amountOf returns the sum of a limit's amounts in list, in millitokens; 0 if it is not listed.
func amountOf(list []plan.Signed, name string) (sum int64) {
	for _, a := range list {
		if a.Name == name {
			sum += a.Amount
		}
	}
	return sum
}

// filling is an administrator's request.
type filling struct {
	id     string
	reset  bool
	grant  bool
	Limits []string         `json:"limits"`
	Add    map[string]int64 `json:"add"`
}

// decodeFilling decodes the record of an administrator's reset, top-up or grant. It fails if its arguments are
// not JSON.
func decodeFilling(item schema.Item) (*filling, error) {
	o, _ := schema.DecodeOperation(item)
	f := &filling{id: o.ID, reset: o.Action == "bucket_reset", grant: o.Action == "bucket_granted"}
	return f, json.Unmarshal([]byte(o.Arguments), f)
}

// callParts returns the amounts of a write by call, with each call's stake. A transaction is of one call, and
// has its takes only.
func (w *sentWrite) callParts() []part {
	if w.transaction {
		p := part{stake: w.stake}
		for _, n := range w.sums {
			p.amounts = append(p.amounts, plan.Signed{Name: n.Name, Amount: n.Take})
		}
		return []part{p}
	}
	return w.calls
}
