package laws

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// bounds are the tolerances that a history adds to the laws.
type bounds struct {
	// exact means that clocks are right and requests have neither latency nor faults, so every tolerance is
	// 0.
	exact bool
	// skew is the greatest error of a clock, in ms either way.
	skew int64
	// lateDecision is the greatest time between the decision of a transaction and its request, in ms.
	lateDecision int64
	// horizon is the prefetch horizon of limiters, in ms.
	horizon int64
	// configWithin is the greatest age of a configuration in force, in ms; 0 for any.
	configWithin int64
	// unread is the longest time, in ms, before a decision at which the last try of an unanswered read may have begun: it
	// took up to 20 s, a quarter of the TTL passed until the next was due, and for a TTL more the first call does not
	// wait for that.
	unread int64
}

// judge replays the committed writes of a history.
type judge struct {
	rules    bounds
	oracle   *oracle
	sets     *schema.LimitSets
	buckets  map[string]map[string]*truth // by entity and limit
	drained  map[string]int64
	accounts map[string]*account // by entity and limit
	backs    map[*lane.Op]int
	// incarnations counts how often the bucket of an entity was deleted.
	incarnations map[string]int
	// made has the number of each incarnation, images the present buckets, and heldOf the prefetched tokens
	// of removed limits.
	made   map[string]int
	images map[string]*schema.Image
	heldOf map[string]int64
	// absent are the limits that an item lacked at some time.
	absent map[string]bool
	// inWindow is the sum taken in each window of a quota, less its give-backs.
	inWindow map[windowLot]int64
	// lives counts the changes of a limit's kind or unit; flips counts those of its zone too.
	lives, flips map[windowLot]int
	// dropped counts give-backs of limits that were gone.
	dropped    int
	violations []string
	// suspects are stakes with an error that only a pending update could explain.
	suspects []*stake
	// fillings are the completed operations of administrators.
	fillings map[string]bool
	tally    map[string]int
}

// newJudge returns a judge of the writes that o recorded, with the tolerances in rules. It has
// replayed nothing yet.
func newJudge(o *oracle, rules bounds) *judge {
	return &judge{
		rules: rules, oracle: o, sets: schema.NewLimitSets(), buckets: map[string]map[string]*truth{},
		drained: map[string]int64{}, accounts: map[string]*account{}, backs: map[*lane.Op]int{}, incarnations: map[string]int{},
		made: map[string]int{}, images: map[string]*schema.Image{}, heldOf: map[string]int64{}, absent: map[string]bool{}, inWindow: map[windowLot]int64{}, lives: map[windowLot]int{}, flips: map[windowLot]int{}, fillings: map[string]bool{}, tally: map[string]int{},
	}
}

// fail adds the violation of a law by the write w to j.violations, as text with the write's number and time.
func (j *judge) fail(w *ddbmem.Write, format string, args ...any) {
	j.violations = append(j.violations, fmt.Sprintf("write %d at %d: ", w.Seq, w.Time.UnixMilli())+fmt.Sprintf(format, args...))
}

// verify replays all recorded writes and admissions, up to the first violation, and returns the violations,
// after those that the oracle noted itself. After a clean replay it also reports granted writes that never
// landed. It holds the oracle's lock.
func (j *judge) verify() []string {
	j.oracle.mu.Lock() // timers write the lapsed tokens
	defer j.oracle.mu.Unlock()
	j.violations = j.oracle.strange
	for i := range j.oracle.writes {
		j.replayServed(i)
		if j.replayWrite(&j.oracle.writes[i]); len(j.violations) > 0 {
			return j.violations // further violations would only be consequences
		}
	}
	j.replayServed(len(j.oracle.writes))
	for key, w := range j.oracle.sent {
		if w.granted && w.landings == 0 {
			j.violations = append(j.violations, fmt.Sprintf("L9: operation %x to %s was granted and never landed", key.operation, key.entity))
		}
	}
	return j.violations
}

// decodeBucket decodes the item of a bucket before or after the write w; nil for a missing item. A malformed
// item is a violation of w.
func (j *judge) decodeBucket(w *ddbmem.Write, item schema.Item) *schema.Image {
	image, err := j.sets.DecodeBucket(item, nil, 0)
	if err != nil {
		j.fail(w, "malformed: %v", err)
	}
	return image
}

// replayWrite replays one committed write of a bucket on the true states of its limits, the accounts and the
// stakes. It adds the laws that it breaks to j.violations, and stops after the first part with a violation.
func (j *judge) replayWrite(w *ddbmem.Write) {
	before, after := j.decodeBucket(w, w.Old), j.decodeBucket(w, w.New)
	item := w.New
	if item == nil {
		item = w.Old
	}
	entity, at := bucketOfItem(item), w.Time.UnixMilli()
	j.drainQueues(entity, before, at)
	j.images[entity] = after
	if after == nil {
		j.replayDeletion(w, entity, before)
		return
	}
	if j.checkGhosts(w, after); len(j.violations) > 0 {
		return
	}
	if before != nil && after.Refilled < before.Refilled {
		j.fail(w, "L10: rf went back from %d to %d", before.Refilled, after.Refilled)
	}
	if f := j.oracle.fillings[w.RequestSeq]; f != nil {
		j.replayFilling(w, f, before, after)
		return
	}
	if isNoteAlone(w) {
		j.tally["noted"]++
		return
	}
	sent := j.findSent(w, entity, before, after)
	if sent == nil {
		j.fail(w, "a write of nobody's: %v", w.New)
		return
	}
	sent.landings++
	if sent.landings == 1 {
		j.checkConfig(w, entity, sent, after, at)
	} else {
		j.tally["landed twice"]++
	}
	backs := j.landedGiveBacks(sent, before, after)
	if before == nil {
		j.checkCreation(w, sent, after)
	}
	j.replayLimits(w, entity, sent, before, after, at)
	j.bookStakes(w, entity, sent, before, after)
	for _, o := range backs {
		j.backs[o]++
		if j.backs[o] > 1 {
			j.fail(w, "L5: a give-back landed %d times: %v", j.backs[o], o.Amounts)
		}
	}
}

// isNoteAlone reports whether a write changed nothing but the note of interactive waiters: a head raised the
// age or reserved. It is false for a write that changed nothing, made or deleted the bucket.
func isNoteAlone(w *ddbmem.Write) bool {
	if w.Old == nil || w.New == nil {
		return false
	}
	was, is := maps.Clone(w.Old), maps.Clone(w.New)
	delete(was, "wn")
	delete(is, "wn")
	return !reflect.DeepEqual(w.Old, w.New) && reflect.DeepEqual(was, is)
}

// findSent returns the oracle's record of the committed write w, by its request. It returns nil if no limiter
// sent it, or if the op slots show another operation. It checks a pending update at once.
func (j *judge) findSent(w *ddbmem.Write, entity string, before, after *schema.Image) *sentWrite {
	sent := j.oracle.requests[w.RequestSeq][entity]
	operation, changed := slotOperation(*w)
	switch {
	case sent == nil:
		return nil
	case changed && j.oracle.sent[sentKey{operation, entity}] != sent:
		return nil
	case !changed && sent.tells:
		j.checkPending(w, sent, before, after)
	case !changed && !sent.transaction:
		return nil
	}
	return sent
}

// checkPending checks the landing of a pending update, which changes no op slot, and counts it. The update must
// not have been refused, and may change only tokens and counters, by its amounts. Violations go to
// j.violations.
func (j *judge) checkPending(w *ddbmem.Write, sent *sentWrite, before, after *schema.Image) {
	j.tally["told"]++
	if sent.refused || before == nil || before.Set != after.Set || before.Refilled != after.Refilled || string(before.IncarnationID()) != string(after.IncarnationID()) {
		j.fail(w, "L10: a bucket that is told what was counted without it changes otherwise, or its client was refused: %v, then %v", w.Old, w.New)
		return
	}
	for k, name := range after.Set.Names {
		n, was, is := sent.sums.Of(name), &before.Limits[k], &after.Limits[k]
		moved := is.Tokens - was.Tokens
		if n.Back == 0 && is.IsQuota() && (was.Window < is.Window || moved <= 0 && moved >= -max(0, n.Late)) {
			moved = 0 // judged by its window: a pending update may charge the quota, and open a window
		}
		if n.Back > 0 && n.Window != was.WindowID() {
			j.fail(w, "L1: %s was told %d back of window %x, in %x", name, n.Back, n.Window, was.WindowID())
		}
		if moved != n.Back {
			j.fail(w, "L4: %s was told %d back, and its tokens moved by %d", name, n.Back, moved)
		}
	}
}

// drainQueues shortens the true queues of a bucket's token buckets by the refill since the last call, up to at
// in Unix ms. It uses the rates in held, and notes them. A nil held is a missing bucket.
func (j *judge) drainQueues(entity string, held *schema.Image, at int64) {
	since := j.drained[entity]
	j.drained[entity] = at
	if held == nil {
		return
	}
	for i, name := range held.Set.Names {
		t := j.buckets[entity][name]
		if t == nil || t.quota {
			continue
		}
		earned, _ := bucket.State{Rate: held.Limits[i].Rate, Refilled: since}.Credit(at)
		t.queue, t.ahead.queue = max(0, t.queue-earned), max(0, t.ahead.queue-earned)
		if t.queue == 0 && t.ahead.queue == 0 {
			t.changes = 0
		}
		t.noteRate(held.Limits[i].Rate)
	}
}

// clockTolerance returns the tolerance of a limit's bound, in millitokens, for wrong clocks and writes in
// flight. It is 0 for a quota and in histories with exact clocks.
func (j *judge) clockTolerance(t *truth) int64 {
	if t.quota || j.rules.exact || j.rules.skew == 0 && t.surplus == 0 {
		return 0
	}
	return t.fastest.Amount*((2+t.changes)*j.rules.skew+t.surplus)/t.fastest.Period + 2
}

// replayDeletion replays the deletion of a bucket, counts it, and drops the true states of its limits. All
// limits count as absent from then on. An expired bucket that still owed tokens is a violation; one that an
// operator deleted may owe anything.
func (j *judge) replayDeletion(w *ddbmem.Write, entity string, before *schema.Image) {
	j.tally[map[bool]string{true: "expired", false: "deleted"}[w.Expired]]++
	j.incarnations[entity]++
	for _, name := range before.Set.Names {
		if t := j.buckets[entity][name]; w.Expired && t != nil && debtOf(t, w.Old, name, w.Time.UnixMilli()+j.rules.skew) > j.clockTolerance(t) {
			j.fail(w, "L1: deleted while %s owed %d", name, t.queue)
		}
	}
	for _, name := range limitNames {
		j.absent[entity+"#"+name] = true
	}
	delete(j.buckets, entity)
}

// checkGhosts records a violation unless every limit of the item has all attributes of its kind,
// and none of the other kind. It marks missing limits as absent.
func (j *judge) checkGhosts(w *ddbmem.Write, after *schema.Image) {
	if w.New["rf"] == nil || len(after.Limits) == 0 {
		j.fail(w, "L7: a ghost item: %v", w.New)
	}
	for _, name := range limitNames {
		if after.Set.Index(name) < 0 {
			j.absent[bucketOfItem(w.New)+"#"+name] = true
		}
	}
	for _, name := range after.Set.Names {
		fields, prefix, other := []string{"tk", "cp", "bx", "ra", "rp", "tc"}, "b_", "q_"
		if quotaIn(w.New, name) != nil {
			fields, prefix, other = quotaFields, other, prefix
		}
		for _, field := range fields {
			_, ok := w.New[prefix+name+"_"+field].(*types.AttributeValueMemberN)
			if !ok && field != "z" {
				j.fail(w, "L7: limit %s has no %s", name, field)
			}
		}
		for attr := range w.New {
			if strings.HasPrefix(attr, other+name+"_") && attr != "b_"+name+"_lf" { // both kinds share the attribute of the life
				j.fail(w, "L7: limit %s is of two kinds: it has %s", name, attr)
			}
		}
	}
}

// landedGiveBacks returns the operations of the sent write with a give-back that the bucket applied, so that
// each is counted once. It is empty if the write made the bucket.
func (j *judge) landedGiveBacks(sent *sentWrite, before, after *schema.Image) []*lane.Op {
	if before == nil {
		return nil // the creation of a bucket drops refunds
	}
	var backs []*lane.Op
	for _, o := range sent.ops {
		if o.GivesBack && slices.ContainsFunc(o.Amounts, func(a plan.Signed) bool {
			return a.Amount < 0 && j.appliedBack(sent, a.Name, before, after) > 0
		}) {
			backs = append(backs, o)
		}
	}
	return backs
}

// appliedBack returns the millitokens that the write gave back to a limit, by its counter. That is all, or 0 if
// the client did not know the limit.
func (j *judge) appliedBack(sent *sentWrite, name string, before, after *schema.Image) int64 {
	a := sent.sums.Of(name)
	i, k := before.Set.Index(name), after.Set.Index(name)
	if a.Back == 0 || i < 0 || k < 0 {
		return 0
	}
	if after.Limits[k].Consumed-before.Limits[i].Consumed == a.Consumed() {
		return a.Back
	}
	return 0
}

// replayFilling replays an administrator's reset, top-up or grant f of a bucket on the true state of each
// limit. It records a violation if the change came twice, made a bucket, changed more than tokens, or gave
// another amount than requested.
func (j *judge) replayFilling(w *ddbmem.Write, f *filling, before, after *schema.Image) {
	j.tally["filled"]++
	if j.fillings[f.id] {
		j.fail(w, "L5: operation %s was done twice", f.id)
	}
	j.fillings[f.id] = true
	if before == nil {
		j.fail(w, "L7: an administrator made a bucket")
		return
	}
	if before.Refilled != after.Refilled || before.TTL != after.TTL || before.Set != after.Set || string(before.IncarnationID()) != string(after.IncarnationID()) {
		j.fail(w, "L10: an administrator changed more than tokens: %v, then %v", w.Old, w.New)
		return
	}
	for i, name := range after.Set.Names {
		x := fill{w: w, f: f, t: j.buckets[bucketOfItem(w.New)][name], exact: j.rules.exact, skew: j.rules.skew, horizon: j.rules.horizon, name: name, at: w.Time.UnixMilli()}
		x.replayLimit(&before.Limits[i], &after.Limits[i], after.State(i))
		for _, wrong := range x.wrong {
			j.fail(w, "%s", wrong)
		}
	}
}

// checkCreation records a violation if the first write of a bucket charges no limit. It notes the number of the
// new incarnation in j.made, and drops the true states of the last one's limits.
func (j *judge) checkCreation(w *ddbmem.Write, sent *sentWrite, after *schema.Image) {
	j.tally["created"]++
	j.made[bucketOfItem(w.New)+"#"+string(after.IncarnationID())] = j.incarnations[bucketOfItem(w.New)]
	charged := false
	for _, name := range after.Set.Names {
		a := sent.sums.Of(name)
		charged = charged || a.Take+a.Adjust > 0 || a.Late > 0 // a new bucket drops lapsed tokens, like refunds
	}
	if !charged {
		j.fail(w, "L7: an item was made without a charge: %v", sent.sums)
	}
	delete(j.buckets, bucketOfItem(w.New))
}

// checkConfig records a violation if a granted take was decided under an outdated configuration, unless newer
// ones could not be read. It checks nothing without rules.configWithin.
func (j *judge) checkConfig(w *ddbmem.Write, entity string, sent *sentWrite, after *schema.Image, at int64) {
	takes := slices.ContainsFunc(sent.sums, func(n plan.Row) bool { return n.Take > 0 })
	if j.rules.configWithin > 0 && takes && sent.granted &&
		!j.oracle.wasInForce(entity, string(after.Fingerprint), sent.decided-j.rules.configWithin, at) &&
		!j.oracle.unreadBetween(sent.decided-j.rules.unread, at) {
		j.fail(w, "L8: %s was charged under a configuration out of force: %x, of %x", entity, after.Fingerprint, j.oracle.configs[entity])
	}
}

// accountOf returns the account of an entity's limit, the sums of its debits and give-backs. It adds an empty
// one at the first use.
func (j *judge) accountOf(entity, name string) *account { return j.accountAt(entity + "#" + name) }

// accountAt returns the account with a key of entity and limit. It adds an empty one at the first use.
func (j *judge) accountAt(key string) *account {
	if j.accounts[key] == nil {
		j.accounts[key] = &account{}
	}
	return j.accounts[key]
}
