package dynalimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// What an acquire does when a bucket does not answer. The policy decides, once a
// level: Block fails, Allow admits, Local asks the process's share of the limits.
// What a policy admits is counted: told to the bucket's counter when it answers, and
// never to its tokens.

// leftToPolicy reports whether the policy decides about an error: nothing was answered.
// Throttling and contention are answers.
func leftToPolicy(err error) bool {
	var u *UnavailableError
	return errors.As(err, &u) && (u.Unconfirmed || silent(u))
}

// admits reports whether the policy may admit calls without the store.
func (p UnavailablePolicy) admits() bool { return p == Allow || p == Local }

// admitSilentLevels decides at the levels whose buckets are known not to answer, before
// any other level is asked. If the process's share denies, nothing has been written.
func (l *RateLimiter) admitSilentLevels(lease *Lease, policy UnavailablePolicy) error {
	for i := range lease.levels {
		lv := &lease.levels[i]
		if len(lv.asked) == 0 || !lv.lane.Contact.Away() {
			continue
		}
		if !policy.admits() {
			return l.unanswered(l.cause())
		}
		if err := l.admitByPolicy(lease, lv, policy); err != nil {
			l.undoLocal(lease)
			return err
		}
		lv.unasked = true
	}
	return nil
}

// admitByPolicy admits at a level without its bucket. The error is the denial of the
// process's share, or says that there is no room for one.
func (l *RateLimiter) admitByPolicy(lease *Lease, lv *level, policy UnavailablePolicy) error {
	lv.degraded = true
	beside := lane.BesideOf(lv.lane)
	if policy == Allow {
		lv.noteAnswer(beside.Memory(lv.cfg))
		return nil
	}
	r, admitted, room := beside.AdmitLocally(lv.asked, lv.cfg, l.opts.LocalShare, l.nowMS())
	if !room {
		return l.unanswered(l.cause())
	}
	lv.noteAnswer(r)
	if lv.local = admitted; !admitted {
		return lease.denial()
	}
	return nil
}

// undoLocal gives back what the process's share admitted to an acquire that failed as a
// whole.
func (l *RateLimiter) undoLocal(lease *Lease) {
	for i := range lease.levels {
		if lv := &lease.levels[i]; lv.local {
			lv.local = false
			lv.changeLocally(plan.Negated(lv.asked), l.opts.LocalShare, l.nowMS())
		}
	}
}

// changeLocally changes the process's share of a level's limits by what was really used.
func (lv *level) changeLocally(changes []plan.Signed, share float64, now int64) {
	beside := lane.BesideOf(lv.lane)
	beside.ChangeLocally(changes, lv.cfg, share, now)
}

// countUnasked counts what was admitted without asking the buckets.
func (lease *Lease) countUnasked() {
	for i := range lease.levels {
		if lv := &lease.levels[i]; lv.unasked {
			lease.limiter.countAdmitted(lv)
		}
	}
}

// countAdmitted counts what the policy admitted at a level. If the limiter was closed
// meanwhile, no bucket will be told.
func (l *RateLimiter) countAdmitted(lv *level) {
	if !lv.count(l.lanes, lv.asked) {
		l.lanes.Drop(lv.asked)
	}
}

// bookAdmitted books at a level a take that its bucket did not answer and that the policy
// admitted. It is counted. What its write may have taken all the same is given back, if it
// is ever known; the write is not sent again.
func (l *RateLimiter) bookAdmitted(lv *level, o *lane.Op) {
	l.countAdmitted(lv)
	switch r := o.Result; {
	case r.Pending:
		lv.lane.Follow(o)
	case r.Unconfirmed:
		l.lanes.Doubt(lv.asked)
	}
}

// errOutOfTime ends a call that used up its time for the store.
var errOutOfTime = errors.New("no answer within Options.Timeout")

// outOfTimeFor is errOutOfTime with the reason why it took so long, if that is known.
func outOfTimeFor(cause error) error {
	if cause == nil {
		return errOutOfTime
	}
	return fmt.Errorf("%w: %w", errOutOfTime, cause)
}

// patience is how long a call waits for the store.
type patience struct {
	began time.Time
	// until is when the call's time for the store ends. reserve is earlier than the
	// caller's own deadline, so that the policy can still decide. Either may be zero.
	until, reserve time.Time
}

const (
	// mostReserve bounds the time before a caller's deadline that is left to the policy,
	// which is a tenth of the time otherwise.
	mostReserve = 50 * time.Millisecond
	// leastSilence is how long a bucket must be silent before a caller's own deadline
	// lets the policy admit. Otherwise a short deadline would be a way around a limit.
	leastSilence = 200 * time.Millisecond
)

// begin starts the time that a call has for the store, if it has not started.
func (l *RateLimiter) begin(ctx context.Context, p *patience) {
	if !p.began.IsZero() {
		return
	}
	p.began = time.Now()
	p.until = p.began.Add(l.opts.Timeout)
	if deadline, ok := ctx.Deadline(); ok {
		if left := deadline.Sub(p.began); left < l.opts.Timeout+mostReserve {
			p.reserve = deadline.Add(-min(left/10, mostReserve))
		}
	}
}

// bound is when a call stops waiting for a read; zero means never. It starts the call's
// patience; a nil patience has no end.
func (l *RateLimiter) bound(ctx context.Context, p *patience) time.Time {
	if p == nil {
		return time.Time{}
	}
	l.begin(ctx, p)
	return p.bound()
}

// bound is when a call stops waiting for a request that no lane sends. That is before
// the caller's own deadline if the store has had time enough to be called silent by
// then.
func (p *patience) bound() time.Time {
	if p.reserve.Before(p.until) && p.reserve.Sub(p.began) >= leastSilence {
		return p.reserve
	}
	return p.until
}

// next is the instant at which a waiting call next has to decide something.
func (p *patience) next() time.Time {
	if !p.reserve.IsZero() && p.reserve.Before(p.until) {
		return p.reserve
	}
	return p.until
}

// await waits for an op of a call, until it has its result, its bucket or table is known
// not to answer, or the call's time for the store is over. It returns false if ctx has
// ended.
func (l *RateLimiter) await(ctx context.Context, at *lane.Lane, o *lane.Op, p *patience) bool {
	select {
	case <-o.Done:
		return true
	default:
	}
	timer := time.NewTimer(time.Until(p.next()))
	defer timer.Stop()
	for {
		select {
		case <-o.Done:
			return true
		case <-ctx.Done():
			return false
		case <-l.lanes.Table.Opened():
			at.GiveUp(o, l.unanswered(l.cause()))
			return true
		case <-timer.C:
		}
		switch {
		case at.Contact.Quiet(p.began) >= leastSilence:
			at.GiveUp(o, l.unanswered(errOutOfTime))
			return true
		case !time.Now().Before(p.until):
			at.GiveUp(o, &UnavailableError{Op: "acquire", Err: outOfTimeFor(o.Cause())})
			return true
		}
		p.reserve = time.Time{} // too short a silence: the caller's deadline decides
		timer.Reset(time.Until(p.until))
	}
}

// silentRead marks the error of a call that left a read of the configuration as silence, if
// nothing was answered meanwhile: since the call began and, if the call joined a read that was
// under way, since that began. What was throttled once may just wait to be sent again.
func (l *RateLimiter) silentRead(err error, key configKey, p *patience) error {
	if !errors.Is(err, errOutOfTime) {
		return err
	}
	since := p.began
	if read := l.repo.configs.readSince(key); !read.IsZero() && read.Before(since) {
		since = read
	}
	if l.repo.breaker.HeardSince(since) {
		return err
	}
	return &UnavailableError{Op: readConfig, Err: silentCause{errOutOfTime}, RetryAfter: l.repo.breaker.RetryAfter()}
}

// unconfigured decides a call whose configuration could not be read. Allow admits it
// without any limit known; Local admits by the limiter's own limits, if it has any.
func (l *RateLimiter) unconfigured(r *request, c cascade, policy UnavailablePolicy, err error) (cascade, error) {
	c.rungs, c.asked, c.unlimited = c.rungs[:0], c.asked[:0], false
	switch {
	case !leftToPolicy(err):
		err = askedAgain(err, 0)
	case policy == Allow:
		return c, nil
	case policy == Local && l.fallback != nil:
		cfg := newBucketConfig(l.fallback.limits, LevelOptions, false, l.nowMS(), l.repo.tick())
		if len(r.opts.limits) > 0 {
			cfg = overridden(cfg, l.fallback.limits, r.opts.limits, l.nowMS(), l.repo.tick())
		}
		c = c.with(l.lanes.Of(r.entity, r.resource), cfg, r.amounts)
		return c, l.checkKnown(r, &c)
	}
	return c, err
}

// cause is why the table does not answer.
func (l *RateLimiter) cause() error {
	if err := l.lanes.Table.Cause(); err != nil {
		return err
	}
	return lane.ErrTripped
}

// userError turns an error of a lane into the error that users see. An error that is one
// already stays.
func (l *RateLimiter) userError(at *lane.Lane, err error) error {
	if err == nil {
		return nil
	}
	return askedAgain(l.userErrorOf(at.Entity, at.Resource, err), at.Turn())
}

// askedAgain says of a failure that was an answer, for lack of capacity, when to call again:
// when the bucket is written next, or soon.
func askedAgain(err error, turn time.Duration) error {
	u, ok := err.(*UnavailableError) //nolint:errorlint // as it is made, before anything wraps it
	if !ok || u.RetryAfter > 0 || u.Unconfirmed || silent(u) {
		return err
	}
	again := *u
	again.RetryAfter = max(turn, contentionPause+rand.N(contentionSpread))
	return &again
}

// userErrorOf is userError for the bucket of an entity on a resource.
func (l *RateLimiter) userErrorOf(entity, resource string, err error) error {
	var f *lane.Failure
	if err == nil || !errors.As(err, &f) {
		return err
	}
	switch f.Reason {
	case lane.Silent:
		return l.unanswered(f.Err)
	case lane.Unconfirmed:
		return &UnavailableError{Op: f.Op, Err: f.Err, Unconfirmed: true}
	case lane.Contended:
		return contended(entity, resource)
	case lane.Panicked:
		return fmt.Errorf("dynalimit: a write of the bucket of %s on %s ended by a panic: %w; the log has its stack", entity, resource, f.Err)
	case lane.Misconfigured:
		return f.Err
	}
	return refusal(entity, resource, f)
}

// refusal is the error of an op that cannot be written as it is.
func refusal(entity, resource string, f *lane.Failure) error {
	switch f.Reason {
	case lane.Outdated:
		return &outdatedError{invalid("amounts["+f.Limit+"]", "is not a limit of entity %q on resource %q any more", entity, resource)}
	case lane.Overfull:
		return invalid("limits", "of entity %q on resource %q would be %d: %d configured, and %q, which are configured no more and go once they are full again; a bucket holds at most %d: keep some of those names, or wait, %v at most",
			entity, resource, len(f.Waiting)+f.Configured, f.Configured, f.Waiting, schema.MaxStored, duration(f.Wait).Round(time.Millisecond))
	case lane.TooDeep:
		return invalid("amounts["+f.Limit+"]", "puts the bucket of entity %q on resource %q more than %d tokens into debt, which is the most it stores; correct the amount, or delete the bucket's item, which forgives its debt",
			entity, resource, int64(plan.MaxDebt)/milli)
	default: // lane.Unlimited
		return &outdatedError{invalid("limits", "none are configured for entity %q on resource %q any more", entity, resource)}
	}
}

// outdatedError is a refusal that became right after the call's configuration had been
// read. Under the configuration in force, the call may be right.
type outdatedError struct{ *ValidationError }

// Unwrap returns what users look for.
func (e *outdatedError) Unwrap() error { return e.ValidationError }

// silentCause marks the cause of an UnavailableError: DynamoDB said nothing at all.
type silentCause struct{ error }

func (e silentCause) Unwrap() error { return e.error }

// unanswered is the error of a call whose bucket does not answer. It does not wrap a
// cause that is such an error already, because the text would then say it twice. If the
// bucket or table has just begun to answer again, RetryAfter is short.
func (l *RateLimiter) unanswered(cause error) *UnavailableError {
	if said, ok := errors.AsType[*UnavailableError](cause); ok {
		cause = said.Err
	}
	if f, ok := errors.AsType[*lane.Failure](cause); ok {
		cause = f.Err
	}
	if marked, ok := cause.(silentCause); ok { //nolint:errorlint // the mark is the outermost
		cause = marked.error
	}
	return &UnavailableError{Op: "write the bucket", Err: silentCause{cause}, RetryAfter: cmp.Or(l.repo.breaker.RetryAfter(), lane.FirstProbe/2)}
}

// unavailable reports whether an error means that the store did not serve the request.
func unavailable(err error) bool { return errors.Is(err, ErrUnavailable) }

// silent reports whether an error that users see means that the store said nothing. An
// answer, even throttling, shows that the store is alive.
func silent(err error) bool {
	if err == nil { // the usual case makes no garbage
		return false
	}
	var u *UnavailableError
	return errors.As(err, &u) && (errors.As(u.Err, new(silentCause)) || ddb.Classify(u.Err, context.Background()).Silent)
}

// verdict is what an answer says about a write.
type verdict = ddb.Verdict

const (
	landed      = ddb.Landed
	refused     = ddb.Refused
	conflicted  = ddb.Conflicted
	throttled   = ddb.Throttled
	unsent      = ddb.Unsent
	unconfirmed = ddb.Unconfirmed
	failed      = ddb.Failed
)

// withoutRetries are the options of a write that must not be sent again blindly.
var withoutRetries = []func(*dynamodb.Options){ddb.WithoutRetries}

// withoutThrottleRetries are the options of a read of a bucket: its lane backs off.
var withoutThrottleRetries = []func(*dynamodb.Options){ddb.WithoutThrottleRetries}

// judge says what an error of a request means for a write.
func judge(err error) verdict { return table.Judge(err) }
