package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// untouchedTries is how many tries require the bucket to be as it was seen. Takes that
// land in between refuse those. The tries after them let takes land.
const untouchedTries = 4

// mostGranted bounds a quota's tokens after a grant, in millitokens, so that its numbers stay within
// 64 bits after any give-back or raise.
const mostGranted = 1 << 60

// refill says how a bucket is filled by hand: to the burst, or by amounts.
type refill struct {
	// action is the name of the change in its event.
	action string
	// id names the operation among those of the entity, so that it is done once. Empty
	// draws one.
	id string
	// entity and resource name the bucket.
	entity, resource string
	// limits are the names of the limits to fill, all if there are none.
	limits []string
	// add has the added amounts, in millitokens, by limit; nil makes limits full. grant adds them to
	// quotas for the current window, also above their amounts.
	add   map[string]int64
	grant bool
	// arguments are the arguments that a repetition must repeat, as text.
	arguments string
}

// refillResult is the result of a refill, in millitokens, as its record stores it.
type refillResult struct {
	Missing   bool          `json:"missing,omitempty"`
	Estimated bool          `json:"estimated,omitempty"`
	Limits    []filledLimit `json:"limits,omitempty"` // in name order
}

// filledLimit is the tokens of a limit, in millitokens.
type filledLimit struct {
	Name   string `json:"name"`
	Before int64  `json:"before"`
	After  int64  `json:"after"`
}

// setArguments sets the operation's id to newID if it is empty, and sorts the limits without repetitions. It
// sets arguments to the JSON text that a repetition of the operation must match.
func (r *refill) setArguments(newID string) (err error) {
	if r.id == "" {
		r.id = newID
	}
	r.limits = slices.Clone(r.limits)
	slices.Sort(r.limits)
	r.limits = slices.Compact(r.limits)
	text, err := json.Marshal(struct {
		Resource string           `json:"resource"`
		Limits   []string         `json:"limits,omitempty"`
		Add      map[string]int64 `json:"add,omitempty"`
	}{r.resource, r.limits, r.add})
	r.arguments = string(text)
	return err
}

// refillOnce applies a refill once under the operation's id, with its event, and returns the tokens before and
// after, in millitokens. The first 4 tries fail if the bucket changes after its read; later ones let takes
// land, and the result is Estimated. It changes neither counters nor the refill instant.
func (b Buckets) refillOnce(ctx context.Context, r *refill) (done BucketRefill, err error) {
	if err := r.setArguments(b.d.IDs.New(b.d.Clock.Now())); err != nil {
		return done, err
	}
	op := fmt.Sprintf("fill the bucket of %q on %q by hand (operation %s)", r.entity, r.resource, r.id)
	try := 0
	err = b.d.Table.Change(ctx, op, func() (p table.Proposal, err error) {
		try++
		done, p, err = b.proposeRefill(ctx, op, r, try <= untouchedTries)
		return p, err
	})
	return done, err
}

// proposeRefill reads the bucket and returns the transaction of the refill and its result, in millitokens; it
// writes nothing. If the operation was done before, the transaction is empty and the result the first one. With
// untouched the transaction fails if the bucket changes after the read.
func (b Buckets) proposeRefill(ctx context.Context, op string, r *refill, untouched bool) (BucketRefill, table.Proposal, error) {
	bucket, record := b.d.Keys.Bucket(r.entity, r.resource), b.d.Keys.Operation(r.entity, r.id)
	items, err := b.d.Table.BatchGet(ctx, op, []schema.Key{bucket, record})
	if err != nil {
		return BucketRefill{}, table.Proposal{}, err
	}
	if o, ok := schema.DecodeOperation(items[record]); ok {
		done, err := r.firstResult(o)
		return done, table.Proposal{}, err
	}
	image, err := schema.NewLimitSets().DecodeBucket(items[bucket], nil, 0)
	if err != nil {
		return BucketRefill{}, table.Proposal{}, err
	}
	now := b.d.Clock.Now()
	done, change, err := b.computeRefill(r, image, now)
	if err != nil {
		return BucketRefill{}, table.Proposal{}, err
	}
	if change != nil {
		change.Untouched, done.Estimated = untouched, !untouched
	}
	p, err := b.refillProposal(r, done, change)
	return done, p, err
}

// computeRefill returns the millitokens of each limit of the bucket m before and after the refill, and the
// change of the bucket. The change is nil if m is nil or no limit gains tokens. It leaves out ghosts, calls in
// flight and limits that r does not name, and fails as checkNames and quotaAddition do.
func (b Buckets) computeRefill(r *refill, m *schema.Image, now time.Time) (BucketRefill, *schema.Refill, error) {
	done := BucketRefill{ID: r.id, At: now.UTC(), Missing: m == nil, Before: dynalimit.Amounts{}, After: dynalimit.Amounts{}}
	if m == nil {
		return done, nil, nil
	}
	if err := r.checkNames(m); err != nil {
		return BucketRefill{}, nil, err
	}
	change := &schema.Refill{Seen: m}
	lacking := false
	for i, name := range m.Set.Names {
		if m.Limits[i].Ghost || m.Limits[i].IsSlots() || len(r.limits) > 0 && !slices.Contains(r.limits, name) {
			continue
		}
		if m.Limits[i].IsQuota() && r.add != nil {
			l, err := r.quotaAddition(m, i, b.d.Clock.SureMS())
			if err != nil {
				return BucketRefill{}, nil, err
			}
			done.Before[name], done.After[name] = l.Put-l.Add, l.Put
			if l.Add > 0 {
				lacking, change.Limits = true, append(change.Limits, l)
			}
			continue
		}
		held, burst := m.State(i).Level(now.UnixMilli()), m.Limits[i].Burst
		after := r.tokensAfter(held, burst, name, m.Limits[i].IsQuota())
		done.Before[name], done.After[name] = held, after
		lacking = lacking || after > held
		if r.add == nil && held <= burst || after > held {
			change.Limits = append(change.Limits, schema.RefillLimit{Index: i, Full: r.add == nil, Add: r.add[name]})
		} else if r.add == nil { // it was granted more: takes may land before the write does
			change.Limits = append(change.Limits, schema.RefillLimit{Index: i, Leave: true})
		}
	}
	if !lacking {
		change = nil
	}
	return done, change, nil
}

// tokensAfter returns the millitokens of a limit after the refill if it holds held before. A token bucket ends
// at its burst at most; a quota is filled to its burst and keeps a grant above it.
func (r *refill) tokensAfter(held, burst int64, name string, quota bool) int64 {
	switch {
	case quota: // it may hold more, as it was granted
		return max(burst, held)
	case r.add != nil:
		return min(burst, held+r.add[name])
	}
	return burst
}

// quotaAddition returns the addition, in millitokens, to the i-th limit, a quota, in the window of now (Unix
// ms). Only a grant adds above the quota's amount. It returns an error if the quota would then have more than
// mostGranted.
func (r *refill) quotaAddition(m *schema.Image, i int, now int64) (schema.RefillLimit, error) {
	is := m.State(i).At(now)
	l := schema.RefillLimit{Index: i, Grant: true, Add: r.add[m.Set.Names[i]], Window: is.Refilled}
	if !r.grant { // nothing of a quota is capped within its window
		l.Add, l.AtMost = min(l.Add, max(0, is.Burst-is.Tokens)), true
	}
	if l.Put = is.Tokens + l.Add; l.Put > mostGranted {
		return l, invalid("amounts["+m.Set.Names[i]+"]", "is too much: the bucket holds %s tokens already", decimalTokens(is.Tokens))
	}
	return l, nil
}

// checkNames returns a *ValidationError if r names a limit that the bucket m lacks or has as a ghost, or calls
// in flight. For a grant it also refuses a token bucket.
func (r *refill) checkNames(m *schema.Image) error {
	var held []string
	for _, name := range m.Set.Names {
		if m.HasLimit(name) {
			held = append(held, name)
		}
	}
	for _, name := range r.limits {
		if slices.Contains(held, name) {
			if m.Limits[m.Set.Index(name)].IsSlots() {
				return invalid("amounts["+name+"]", "are calls in flight, whose slots come back when the calls end; leave it out")
			}
			if r.grant && !m.Limits[m.Set.Index(name)].IsQuota() {
				return withFix(invalid("amounts["+name+"]", "is granted to a token bucket, which has no window; fill it"), fault.TopUpBucket)
			}
			continue
		}
		field := "limits"
		if r.add != nil {
			field = "amounts[" + name + "]"
		}
		return invalid(field, "names the limit %q, which the bucket does not have; it has %s (a limit that was configured since the last acquire is added full by the next)",
			name, strings.Join(held, ", "))
	}
	return nil
}

// firstResult returns the stored result of operation o, in millitokens and marked as Repeated. It returns an
// error if o had another action or other arguments.
func (r *refill) firstResult(o schema.Operation) (BucketRefill, error) {
	if o.Action != r.action || o.Arguments != r.arguments {
		return BucketRefill{}, invalid("id", "is %q, the id of another operation: %s with %s; give every operation its own id", r.id, o.Action, o.Arguments)
	}
	var result refillResult
	if err := json.Unmarshal([]byte(o.Result), &result); err != nil {
		return BucketRefill{}, fmt.Errorf("dynalimit: the result of operation %s cannot be read: %w", o.ID, err)
	}
	done := BucketRefill{
		ID: o.ID, At: o.At, Repeated: true, Missing: result.Missing, Estimated: result.Estimated, Before: dynalimit.Amounts{}, After: dynalimit.Amounts{},
	}
	for _, l := range result.Limits {
		done.Before[l.Name], done.After[l.Name] = l.Before, l.After
	}
	return done, nil
}

// refillProposal returns the transaction with the record of the operation and, unless change is nil, the change
// of the bucket with its event. It sends nothing. A second operation with the id makes it fail.
func (b Buckets) refillProposal(r *refill, done BucketRefill, change *schema.Refill) (table.Proposal, error) {
	held := refillResult{Missing: done.Missing, Estimated: done.Estimated}
	for _, name := range slices.Sorted(maps.Keys(done.Before)) {
		held.Limits = append(held.Limits, filledLimit{name, done.Before[name], done.After[name]})
	}
	result, err := json.Marshal(held)
	if err != nil {
		return table.Proposal{}, err
	}
	record := b.d.Table.PutPart(schema.Operation{
		ID: r.id, Entity: r.entity, Resource: r.resource, Action: r.action, Arguments: r.arguments, Result: string(result), By: b.d.Author, At: done.At,
	}.Item(b.d.Keys), schema.OperationUndone())
	if change == nil {
		return table.Proposal{Writes: []types.TransactWriteItem{record}}, nil
	}
	write := b.d.Table.UpdatePart(b.d.Keys.Bucket(r.entity, r.resource), change.Statement())
	return b.d.propose(r.newDeed(done), write, record)
}

// newDeed returns the deed of the refill for its audit event, with the tokens of each limit before and after,
// and the added ones.
func (r *refill) newDeed(done BucketRefill) deed {
	what := deed{
		action: r.action, target: r.entity, resource: r.resource,
		before: trail.Fields{"tokens": tokensOf(done.Before)}, after: trail.Fields{"tokens": tokensOf(done.After), "operation_id": r.id},
	}
	if r.add != nil {
		what.after["added"] = tokensOf(r.add)
	}
	if done.Estimated {
		what.after["estimated"] = true
	}
	return what
}

// tokensOf converts millitokens by limit to decimal numbers of tokens by limit.
func tokensOf(held map[string]int64) map[string]json.Number {
	out := make(map[string]json.Number, len(held))
	for name, n := range held {
		out[name] = decimalTokens(n)
	}
	return out
}

// decimalTokens returns millitokens as a decimal number of tokens, without trailing zeros.
func decimalTokens(milli int64) json.Number {
	sign, whole, rest := "", milli/1000, milli%1000
	if milli < 0 {
		sign, whole, rest = "-", -whole, -rest
	}
	text := sign + strconv.FormatInt(whole, 10)
	if rest != 0 {
		text += strings.TrimRight(fmt.Sprintf(".%03d", rest), "0")
	}
	return json.Number(text)
}
