package outside

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// held is a lease, and what buckets took for it, or may have taken: of each level and limit,
// in tokens, by "entity|limit".
type held struct {
	*dynalimit.Lease
	of    *member
	chain []string // the entity and its parents
	busy  atomic.Bool
	taken map[string]int64
	// most is the most that it used at any time.
	most int64
	// local is what the process's share admitted, alike, or was told of.
	local map[string]int64
}

// stands is what the lease uses of each level and limit.
func (l *held) stands() map[string]int64 {
	stands := map[string]int64{}
	for _, s := range l.Statuses() {
		stands[s.EntityID+"|"+s.Limit.Name] = s.Requested
	}
	return stands
}

// queue is what a bucket admitted of a limit, drained at the fastest rate there was.
type queue struct {
	tokens float64
	at     time.Time
	// returning may be given back already, by corrections under way. late is what leases
	// gave back when the queue did not hold it, or the bucket did not answer: the bucket may
	// get it later, once. left is what calls asked whose callers left: granted all the same, it
	// is held by nobody who was admitted, until it comes back.
	returning, left int64
	late            float64
}

// share is a process's share of a level's limit.
type share struct {
	of  *dynalimit.Repository
	key string
}

// oracle judges a history.
type oracle struct {
	world
	mu     sync.Mutex
	queues map[string]*queue
	// shares are what processes admitted by their shares, by repository and level.
	shares map[share]*queue
	// rate is the fastest rate of any limit, in tokens a second, and burst the largest
	// burst, by the limit's name: entities may have any of them at any time.
	rate, burst map[string]float64
	// items are the buckets as stored, doubt what is uncertain, by limit.
	items map[string]map[string]types.AttributeValue
	doubt map[string]int64
	// gone is what limits had counted that went, by "entity|limit", and what of it a level
	// above counted too, by "entity|limit|up", in millitokens.
	gone map[string]int64
	// landed are how often operations landed, by entity and id.
	landed map[string]int
	// known are the entities whose configuration processes have read.
	known map[string]bool
	// healthyDegraded counts calls that a policy admitted at a level that answers.
	healthyDegraded int
	violations      []string
	tally           map[string]int
}

func newOracle(w world) *oracle {
	return &oracle{
		world: w, queues: map[string]*queue{}, shares: map[share]*queue{}, rate: map[string]float64{}, burst: map[string]float64{},
		known: map[string]bool{}, gone: map[string]int64{}, items: map[string]map[string]types.AttributeValue{}, landed: map[string]int{}, doubt: map[string]int64{}, tally: map[string]int{},
	}
}

func (o *oracle) fail(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.accuse(format, args...)
}

// accuse is fail where o.mu is held.
func (o *oracle) accuse(format string, args ...any) {
	o.violations = append(o.violations, fmt.Sprintf(format, args...))
}

func (o *oracle) count(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tally[what]++
}

// mayHave notes a limit that some level has from now on.
func (o *oracle) mayHave(l dynalimit.Limit) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rate[l.Name] = max(o.rate[l.Name], float64(l.RefillAmount)/l.RefillPeriod.Seconds())
	o.burst[l.Name] = max(o.burst[l.Name], float64(l.Burst))
}

// slack is what may be admitted above a burst: the refill of the time by which clocks are
// wrong, of what is debited ahead, and of writes under way.
func (o *oracle) slack(limit string) float64 {
	wrong := o.prefetch + 2*o.latency + 8*time.Second
	if o.behind > 0 {
		wrong += o.behind
	}
	return o.rate[limit]*wrong.Seconds() + 2
}

// admit notes what buckets admitted to a lease that asked so much and stood at before: L1, in
// outages and after them. A lease that shows a level for the first time shows what was counted
// there before, too.
func (o *oracle) admit(l *held, asked int64, before map[string]int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range l.Statuses() {
		key := s.EntityID + "|" + s.Limit.Name
		got := min(asked, s.Requested-before[key])
		switch {
		case got <= 0:
			continue
		case s.Degraded:
			o.tally["degraded"]++
			o.admitLocally(l, key, s.Limit.Name, got)
			continue
		}
		o.tally["admitted"]++
		q := o.drained(key)
		q.tokens += float64(got)
		l.taken[key] += got
		most := o.burst[s.Limit.Name] + o.slack(s.Limit.Name)
		if above := q.tokens - float64(q.returning) - most; above > 0 {
			landed := min(above, q.late)
			q.late, q.tokens, above = q.late-landed, q.tokens-landed, above-landed
			if above > 0 {
				o.accuse("L1: the bucket of %s admitted %.0f at once, of %.0f", key, most+above, most)
			}
		}
	}
}

// refill notes that an operator gives a bucket so many tokens, up to its burst: now or a
// little later.
func (o *oracle) refill(entity string, tokens int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.drained(entity + "|rpm")
	q.late += min(float64(tokens), o.burst["rpm"])
}

// leave notes that a caller left, before it knew what its call was granted.
func (o *oracle) leave(chain []string, asked int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, entity := range chain {
		o.drained(entity + "|rpm").left += asked
	}
}

// returns notes what came off a counter while no lease was corrected: what callers who left had
// been granted. o.mu must be held.
func (o *oracle) returns(entity string, before, after map[string]types.AttributeValue) {
	q := o.drained(entity + "|rpm")
	back := min(q.left, (number(before, "b_rpm_tc")-number(after, "b_rpm_tc"))/1000)
	if after != nil && back > 0 && q.returning == 0 {
		q.left, q.late = q.left-back, q.late+float64(back)
	}
}

// admitLocally notes what a process's share admitted: at most its part of the burst, or one
// call. o.mu must be held.
func (o *oracle) admitLocally(l *held, key, limit string, got int64) {
	if o.policy != dynalimit.Local || o.changes {
		return
	}
	q := o.sharedOut(l, key)
	q.tokens += float64(got)
	l.local[key] += got
	o.tally["shared out"]++
	if most := max(o.burst[limit]*o.share, float64(got)) + o.slack(limit); q.tokens-float64(q.returning) > most {
		o.accuse("Local admitted %.0f of %s at once, of %.0f", q.tokens, key, most)
	}
}

// sharedOut is the queue of a process's share now. o.mu must be held.
func (o *oracle) sharedOut(l *held, key string) *queue {
	return drained(o.shares, share{l.of.repo, key}, o.rateOf(key)*o.share)
}

// drained is the queue of a limit now. o.mu must be held.
func (o *oracle) drained(key string) *queue { return drained(o.queues, key, o.rateOf(key)) }

// rateOf is the fastest rate of a limit, by "entity|limit".
func (o *oracle) rateOf(key string) float64 {
	_, limit, _ := strings.Cut(key, "|")
	return o.rate[limit]
}

func drained[K comparable](queues map[K]*queue, key K, rate float64) *queue {
	q := queues[key]
	if q == nil {
		q = &queue{at: time.Now()}
		queues[key] = q
	}
	q.tokens = max(0, q.tokens-rate*time.Since(q.at).Seconds())
	q.at = time.Now()
	return q
}

// corrected runs a correction and notes what it gave back, most at the utmost: to the buckets
// at most what they took for the lease. A bucket has it before the lease says so. What the
// correction raises is never denied, and so fills no queue; it may be taken unless the table
// was away.
func (o *oracle) corrected(l *held, most int64, correct func() error) error {
	o.mu.Lock()
	before, returning := l.stands(), map[*queue]int64{}
	for key, n := range l.taken {
		q := o.drained(key)
		returning[q] = min(n, most)
		q.returning += returning[q]
	}
	for key, n := range l.local {
		q := o.sharedOut(l, key)
		returning[q] = min(n, most)
		q.returning += returning[q]
	}
	o.mu.Unlock()
	open := l.of.limiter.Health().Open
	err := correct()
	health := l.of.limiter.Health()
	counted, waits := open && health.Open, len(health.Waiting) > 0
	o.mu.Lock()
	defer o.mu.Unlock()
	for q, n := range returning {
		q.returning -= n
	}
	stands := l.stands()
	for key, n := range stands {
		if more := n - before[key]; more > 0 {
			l.local[key] += more // the share may have grown by it, too
			if !counted {
				l.taken[key] += more
			}
		}
	}
	for key, n := range l.local {
		if back := min(n, before[key]-stands[key]); back > 0 {
			q := o.sharedOut(l, key)
			q.tokens, l.local[key] = max(0, q.tokens-float64(back)), n-back
		}
	}
	for key, n := range l.taken {
		back := n - stands[key]
		if err != nil { // what is counted stays, of a closed limiter: the bucket got all
			back = max(back, min(n, before[key]-stands[key]))
		}
		if back > 0 {
			q := o.drained(key)
			if waits { // the bucket gets it later: what it drains until then is not lost
				q.late += float64(back)
			} else if q.tokens -= float64(back); q.tokens < 0 {
				if l.Degraded() {
					q.late -= q.tokens
				}
				q.tokens = 0
			}
			l.taken[key] = n - back
			o.tally["given back"]++
		}
	}
	return err
}

// knows reports whether a process has read the entity's configuration: then it is known for
// an hour.
func (o *oracle) knows(process *member, entity string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known[fmt.Sprintf("%p|%s", process, entity)]
}

// levelled checks that a call was admitted by some level, if the process knew the entity's
// configuration when it began.
func (o *oracle) levelled(l *held, entity string, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case len(l.Statuses()) > 0:
		o.known[fmt.Sprintf("%p|%s", l.of, entity)] = true
		o.tally["levelled"]++
	case known && !o.changes:
		o.accuse("a call on %s was admitted without any limit while the configuration was not read", entity)
	}
}

// mostHealthyDegraded is how often a policy may admit at a level that answers: calls that
// were under way when the table was taken to be away, for a moment.
const mostHealthyDegraded = 12

// unprobed is how long a bucket may answer before its process asks it whether it does: the
// longest wait between two probes, and one that was not answered.
const unprobed = 12 * time.Second

// degradedHealthy notes levels that a policy admitted although their buckets answer: hit is
// when requests about each entity last got no answer.
func (o *oracle) degradedHealthy(l *held, hit map[string]time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range l.Statuses() {
		if s.Degraded && time.Since(hit[s.EntityID]) > unprobed && o.maxBuckets == 0 {
			if o.healthyDegraded++; o.healthyDegraded == mostHealthyDegraded {
				o.accuse("a policy admits at %s, which answers", s.EntityID)
			}
		}
	}
}

// committed looks at a write of a bucket: no ghosts, and a refill instant that never goes
// back.
func (o *oracle) committed(w ddbmem.Write) {
	item := w.New
	if item == nil {
		item = w.Old
	}
	pk, sk := text(item, "PK"), text(item, "SK")
	if !strings.HasPrefix(sk, "#BUCKET#") {
		return
	}
	if w.New != nil && w.Old != nil && number(w.New, "rf") < number(w.Old, "rf") {
		o.fail("L10: rf went back, from %d to %d", number(w.Old, "rf"), number(w.New, "rf"))
	}
	for name := range w.New {
		if limit, ok := strings.CutSuffix(name, "_tk"); ok && (w.New[limit+"_bx"] == nil || w.New[limit+"_tc"] == nil) {
			o.fail("L7: a ghost: %s of %s", limit, pk)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	entity := strings.TrimPrefix(pk, "ENTITY#")
	o.landsTwice(entity, o.items[entity], w.New)
	o.returns(entity, w.Old, w.New)
	for limit := range o.rate {
		if counter := "b_" + limit + "_tc"; w.New[counter] == nil {
			o.gone[entity+"|"+limit] += number(w.Old, counter)
			o.gone[entity+"|"+limit+"|up"] += number(w.Old, "b_"+limit+"_up")
		}
	}
	o.items[entity] = w.New
}

// landsTwice puts into doubt what an operation takes that has landed before: another client
// wrote its slot in between, and it was sent again. It counts twice. o.mu must be held.
func (o *oracle) landsTwice(entity string, before, after map[string]types.AttributeValue) {
	for slot := range 4 {
		name := "op" + strconv.Itoa(slot)
		id, _ := after[name].(*types.AttributeValueMemberB)
		was, _ := before[name].(*types.AttributeValueMemberB)
		if id == nil || was == nil || bytes.Equal(id.Value, was.Value) {
			continue
		}
		operation := entity + string(id.Value[:8]) // the try follows
		if o.landed[operation]++; o.landed[operation] == 1 {
			continue
		}
		o.tally["landed twice"]++
		for limit := range o.rate {
			counter := "b_" + limit + "_tc"
			o.doubt[limit] += max(0, number(after, counter)-number(before, counter)) / 1000
		}
	}
}

func text(item map[string]types.AttributeValue, name string) string {
	s, _ := item[name].(*types.AttributeValueMemberS)
	if s == nil {
		return ""
	}
	return s.Value
}

func number(item map[string]types.AttributeValue, name string) int64 {
	n, _ := item[name].(*types.AttributeValueMemberN)
	if n == nil {
		return 0
	}
	v, _ := strconv.ParseInt(n.Value, 10, 64)
	return v
}

// uncertain notes what a process says is in doubt, or was dropped.
func (o *oracle) uncertain(h dynalimit.Health) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, amounts := range []dynalimit.Amounts{h.Doubt, h.Dropped} {
		for name, n := range amounts {
			o.doubt[name] += n
		}
	}
}

// unconfirmed notes what an error says may have been written, or not.
func (o *oracle) unconfirmed(err error) {
	var one *dynalimit.UnconfirmedError
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			o.unconfirmed(e)
		}
	} else if errors.As(err, &one) {
		o.mu.Lock()
		defer o.mu.Unlock()
		for name, n := range one.Amounts {
			o.doubt[name] += max(n, -n)
		}
	}
}

// ledger compares each counter with what leases use. It is told when the history is over. What
// is given back to a limit that has gone is dropped: its counter stays above what leases use.
func (o *oracle) ledger(leases []*held) {
	used, more := map[string]int64{}, map[string]int64{}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range leases {
		stands := l.stands()
		for key, n := range stands {
			used[key] += n
			if entity, _, _ := strings.Cut(key, "|"); !slices.Contains(l.chain, entity) {
				o.accuse("a call charged %s, which does not count for %s", key, l.chain[0])
			}
		}
		for _, entity := range l.chain { // a level of which nothing was ever read shows nothing
			switch _, shown := stands[entity+"|rpm"]; {
			case shown:
			case !o.changes:
				used[entity+"|rpm"] += l.Used()["rpm"]
			case l.Degraded(): // or it had no such parent, or no such limit there, when it was told
				more[entity+"|rpm"] += l.most
			}
		}
	}
	for key, n := range used {
		entity, limit, _ := strings.Cut(key, "|")
		counted := (number(o.items[entity], "b_"+limit+"_tc") + o.gone[key]) / 1000
		o.tally["ledgers"]++
		off := more[key] + o.doubt[limit]
		if counted < n-off || o.gone[key] == 0 && counted > n+off {
			o.accuse("the counter of %s is %d, and leases use %d, with %d in doubt, and %d at levels that are not known", key, counted, n, o.doubt[limit], more[key])
		}
	}
}

// once compares what all levels counted, each call at one of them alone, with what leases
// use. What a policy admitted may have met other levels than its lease shows.
func (o *oracle) once(leases []*held) {
	if o.outage != "" || o.faults {
		return
	}
	used, entities := int64(0), map[string]bool{}
	for _, l := range leases {
		used += l.Used()["rpm"]
		for _, entity := range l.chain {
			entities[entity] = true
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	counted, gone := int64(0), false
	for entity := range entities {
		item, key := o.items[entity], entity+"|rpm"
		gone = gone || o.gone[key] != 0
		counted += number(item, "b_rpm_tc") + o.gone[key] - number(item, "b_rpm_up") - o.gone[key+"|up"]
	}
	o.tally["counted once"]++
	if counted = counted / 1000; used-counted > o.doubt["rpm"] || !gone && counted-used > o.doubt["rpm"] {
		o.accuse("counted once are %d, and leases use %d, with %d in doubt", counted, used, o.doubt["rpm"])
	}
}
