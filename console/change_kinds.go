package console

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/notation"
)

const (
	// suggestedRaise is the suggested length of a raise, and localTime the notation of browsers for local times.
	suggestedRaise, localTime = 2 * time.Hour, "2006-01-02T15:04"
	// shownTime shows a time with its offset.
	shownTime = "Jan 2 2006, 15:04 -07:00"
	// mostAmount bounds typed amounts, so that sums with them stay within 64 bits.
	mostAmount = 1 << 53
	// changeUnits is the price of a change: its reads and writes.
	changeUnits = 20
)

// changeKind is a kind of change: its texts, its choices and its effect.
type changeKind struct {
	title, verb, class, explain, effect        string
	targetLabel, amountLabel, amountHint, none string
	asksUntil                                  bool
	// ofSource means that the change is one of configuration: it is refused if the source was changed meanwhile.
	ofSource bool
	targets  func(subject) []target
	// plan reads the typed values into the proposal, and returns the diff. Its errors are for the visitor.
	plan func(subject, target, *changeForm, *proposal) ([]diff, error)
	// inForce reports whether a source has the change already.
	inForce func(admin.LimitConfig, proposal) bool
	// make makes the change, and returns a diff and the result for the visitor.
	make func(context.Context, *admin.Admin, subject, proposal) ([]diff, string, error)
}

// target is a limit or a source to choose.
type target struct {
	Value, Text string

	resource string
	limit    dynalimit.LimitStatus
	all      []dynalimit.LimitStatus // of a whole bucket
}

// subject is the entity of a change, as it was read for this request.
type subject struct {
	view  *view
	owned admin.Owned
	main  string
}

// ownConfig returns the entity's own configuration of a resource, or its default for all resources for "". It
// is empty without one.
func (s subject) ownConfig(resource string) admin.LimitConfig {
	for _, c := range s.owned.Configs {
		if c.Scope.Resource == resource {
			return c.Config
		}
	}
	return admin.LimitConfig{}
}

// sourceTargets returns the entity's sources that fits accepts, as choices; a source may be empty. The one for
// all resources comes first, then one for each resource: the main one and those with a bucket or a
// configuration.
func (s subject) sourceTargets(fits func(admin.LimitConfig) bool) (all []target) {
	resources := []string{"", s.main}
	for _, b := range s.owned.Buckets {
		resources = append(resources, b.Resource)
	}
	for _, c := range s.owned.Configs {
		resources = append(resources, c.Scope.Resource)
	}
	for i, resource := range resources {
		if slices.Contains(resources[:i], resource) || !fits(s.ownConfig(resource)) {
			continue
		}
		t := target{Value: resource, Text: "calls on “" + resource + "”", resource: resource}
		if resource == "" {
			t.Text = "all calls"
		}
		all = append(all, t)
	}
	return all
}

// limitTargets returns the limits of the entity's buckets that fits accepts, as choices; those of the main
// resource come first.
func (s subject) limitTargets(fits func(dynalimit.Limit) bool) (all []target) {
	for _, b := range mainFirst(s.owned.Buckets, s.main) {
		for _, l := range b.Limits {
			if fits(l.Limit) {
				all = append(all, target{Value: b.Resource + " " + l.Limit.Name, Text: l.Limit.Name + " on " + b.Resource + ", " + s.describeLimit(l.Limit), resource: b.Resource, limit: l})
			}
		}
	}
	return all
}

// isMoney reports whether a limit of a bucket counts micro-dollars: a quota with the name of a limit of money
// in the read configurations. A bucket stores no unit.
func (s subject) isMoney(l dynalimit.Limit) bool { return l.IsQuota() && s.view.isMoney(l.Name) }

// describeLimit returns a limit as text for people, with dollars if it is money.
func (s subject) describeLimit(l dynalimit.Limit) string {
	if s.isMoney(l) {
		l.Unit = dynalimit.USD
	}
	return notation.DescribeLimit(l)
}

// groupedAmount matches an amount with commas between groups of thousands.
var groupedAmount = regexp.MustCompile(`^\$?[0-9]{1,3}(,[0-9]{3})+([^0-9,][^,]*)?$`)

// parseAmount returns the typed amount of a limit: micro-dollars for money, else whole tokens. It refuses
// amounts of 0, below 0 or above 2^53, and decimal commas (2,50 could be read as 250); its errors are for the
// visitor.
func (s subject) parseAmount(l dynalimit.Limit, text string) (int64, error) {
	if strings.Contains(text, ",") && !groupedAmount.MatchString(text) {
		return 0, fmt.Errorf("%q has a comma that separates no thousands: write it like 1,000 or 2.50", text)
	}
	parse := notation.ParseCount
	if s.isMoney(l) {
		parse = notation.ParseDollars
	}
	n, err := parse(strings.ReplaceAll(text, ",", ""))
	switch {
	case err == nil && n <= 0:
		err = fmt.Errorf("%q is not above 0: give more", text)
	case err == nil && n > mostAmount:
		err = fmt.Errorf("%q is too large: give less", text)
	}
	return n, err
}

// leftLine returns a line of a diff with the tokens or dollars left of a limit. The class "d" is before a
// change, "a" after it.
func (s subject) leftLine(class string, l dynalimit.Limit, left int64) diff {
	sign := "− "
	if class == "a" {
		sign = "+ "
	}
	return diff{class, sign + l.Name + ": " + formatAmount(s.isMoney(l), left) + " left"}
}

// describeSettings returns the settings of a source as texts for people, one a line: limits, lifted limits,
// raises and flags. It leaves out settings that are not set.
func describeSettings(c admin.LimitConfig, zone *time.Location) (lines []string) {
	for _, l := range c.Limits {
		lines = append(lines, l.Name+": "+notation.DescribeLimit(l))
	}
	for _, name := range c.Lifted {
		lines = append(lines, name+": lifted")
	}
	for _, r := range c.Raises {
		lines = append(lines, fmt.Sprintf("%s: raised to %s until %s", r.Name, notation.GroupedNumber(r.Capacity), r.Until.In(zone).Format(shownTime)))
	}
	for _, mark := range []struct {
		is   bool
		text string
	}{
		{c.Extends, "extends the limits of less specific sources"},
		{c.Unlimited, "unlimited"},
		{c.Counted, "counted"},
		{c.Blocked, "blocked"},
		{c.BlockedExcept, "blocked, with exceptions"},
		{c.Admit, "exempt from blocks with exceptions"},
		{c.OnUnavailable != "", "while the table is silent: " + string(c.OnUnavailable)},
		{c.ManagedBy != "", "managed by " + c.ManagedBy},
	} {
		if mark.is {
			lines = append(lines, mark.text)
		}
	}
	return lines
}

// diffLines returns the lines of before that are missing in after (class "d"), then those of after that are
// missing in before (class "a"). Common lines are left out.
func diffLines(before, after []string) (lines []diff) {
	for _, line := range before {
		if !slices.Contains(after, line) {
			lines = append(lines, diff{"d", "− " + line})
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			lines = append(lines, diff{"a", "+ " + line})
		}
	}
	return lines
}

// The effects of changes, for people.
const (
	sourceEffect = "In force here at once, in other processes within a minute by default. Refused if somebody changes this source in between."
	bucketEffect = "In force with the next call. Counters of usage stay."
)

var changeKinds = map[string]changeKind{
	"block": {
		title: "Block", verb: "Block", class: "stop", explain: "No call is admitted until somebody lifts the block, whatever its limits. Calls of its children that charge it are refused too.",
		effect: sourceEffect, targetLabel: "Block", none: "Everything is blocked already.", ofSource: true,
		targets: func(s subject) []target { return s.sourceTargets(func(c admin.LimitConfig) bool { return !c.Blocked }) },
		plan:    planBlock(true), inForce: func(c admin.LimitConfig, _ proposal) bool { return c.Blocked },
		make: makeBlock(true, "Blocked."),
	},
	"unblock": {
		title: "Lift a block", verb: "Lift the block", explain: "Calls are admitted again as far as limits and blocks of other sources allow.",
		effect: sourceEffect, targetLabel: "Blocked", none: "Nothing is blocked.", ofSource: true,
		targets: func(s subject) []target { return s.sourceTargets(isBlocked) },
		plan:    planBlock(false), inForce: func(c admin.LimitConfig, _ proposal) bool { return !isBlocked(c) },
		make: makeBlock(false, "The block is lifted."),
	},
	"raise": {
		title: "Raise a limit for a while", verb: "Raise the limit", explain: "It changes this limit and hides no other. Afterwards the limits are as before. A quota is not raised: grant more for its window.",
		effect: sourceEffect, targetLabel: "Limit", amountLabel: "New limit", amountHint: "such as 600, 10k or 2M", none: "No call has made a bucket with a limit to raise yet.", asksUntil: true, ofSource: true,
		targets: func(s subject) []target {
			return s.limitTargets(func(l dynalimit.Limit) bool { return !l.IsQuota() && !l.IsConcurrent() })
		},
		plan: planRaise, inForce: func(c admin.LimitConfig, p proposal) bool { return hasRaise(c, p) }, make: makeRaise,
	},
	"grant": {
		title: "Grant more for this window", verb: "Grant", explain: "It adds to the rest of a quota, also above its amount, until the window ends. The next window has the usual amount.",
		effect: bucketEffect, targetLabel: "Quota", amountLabel: "More", amountHint: "in dollars for money, such as 2.50", none: "No call has made a bucket with a quota yet: its quotas are full.",
		targets: func(s subject) []target { return s.limitTargets(dynalimit.Limit.IsQuota) },
		plan:    planGrant, make: makeGrant,
	},
	"refill": {
		title: "Refill now", verb: "Refill", explain: "It makes limits full, and ends their debt.",
		effect: bucketEffect, targetLabel: "Refill", none: "No call has made a bucket yet: every limit is full.",
		targets: refillTargets, plan: planRefill, make: makeRefill,
	},
}

// sourceScope returns the scope of the source that the proposal changes: the entity's, on the proposal's
// resource.
func (p proposal) sourceScope() admin.Scope {
	return admin.Scope{Entity: p.Entity, Resource: p.Resource}
}

// planBlock returns the plan of a block, or of the end of one. The plan returns the diff of the source's
// settings, in which a block also ends exceptions and exemption. It stores nothing and never fails.
func planBlock(blocked bool) func(subject, target, *changeForm, *proposal) ([]diff, error) {
	return func(s subject, t target, _ *changeForm, _ *proposal) ([]diff, error) {
		before := s.ownConfig(t.resource)
		after := before
		after.Blocked, after.BlockedExcept, after.Admit = blocked, false, before.Admit && !blocked
		return diffLines(describeSettings(before, s.view.options.Location), describeSettings(after, s.view.options.Location)), nil
	}
}

// makeBlock returns the function that stores a block at the proposal's source, or removes one. That function
// returns the proposal's diff, the text done, and the error of the write.
func makeBlock(blocked bool, done string) func(context.Context, *admin.Admin, subject, proposal) ([]diff, string, error) {
	return func(ctx context.Context, a *admin.Admin, _ subject, p proposal) ([]diff, string, error) {
		return p.Lines, done, a.Limits.SetBlocked(ctx, p.sourceScope(), blocked)
	}
}

// findRaise returns the raise of a limit at a source, also an ended one. It returns the zero Raise and false
// without one.
func findRaise(c admin.LimitConfig, name string) (r admin.Raise, found bool) {
	i := slices.IndexFunc(c.Raises, func(r admin.Raise) bool { return r.Name == name })
	if i < 0 {
		return r, false
	}
	return c.Raises[i], true
}

// hasRaise reports whether the source has the proposal's raise, with the same capacity and end.
func hasRaise(c admin.LimitConfig, p proposal) bool {
	r, found := findRaise(c, p.Limit)
	return found && r.Capacity == p.Amount && r.Until.Equal(p.Until)
}

// planRaise sets the typed amount and end of a raise in p, and returns the diff. It refuses an end that is over
// or does not exist in the zone. It refuses an amount that does not raise the limit, unless it replaces a
// raise.
func planRaise(s subject, t target, f *changeForm, p *proposal) ([]diff, error) {
	l, zone := t.limit.Limit, s.view.options.Location
	var err error
	if p.Amount, err = s.parseAmount(l, f.Amount); err != nil {
		return nil, err
	}
	if p.Until, err = time.ParseInLocation(localTime, f.Until, zone); err != nil {
		return nil, fmt.Errorf("%q is not a time: write it like %s", f.Until, s.view.now().In(zone).Format(localTime))
	}
	if p.Until.Format(localTime) != f.Until {
		return nil, fmt.Errorf("%s does not exist in %s, where clocks are set forward: give another time", f.Until, zone)
	}
	if !p.Until.After(s.view.now()) {
		return nil, errors.New("the end is over: give a later time")
	}
	before := l.Name + ": " + s.describeLimit(l)
	if stored, found := findRaise(s.ownConfig(t.resource), l.Name); found {
		before = fmt.Sprintf("%s: %s %s until %s", l.Name, notation.GroupedNumber(stored.Capacity), periodText(l), stored.Until.In(zone).Format(shownTime))
	} else if p.Amount <= l.Capacity {
		return nil, fmt.Errorf("%s is %s already: give more", l.Name, notation.GroupedNumber(l.Capacity))
	}
	return []diff{{"d", "− " + before}, {"a", fmt.Sprintf("+ %s: %s %s until %s", l.Name, notation.GroupedNumber(p.Amount), periodText(l), p.Until.Format(shownTime))}}, nil
}

// makeRaise stores the proposal's raise, also in place of a raise that the visitor saw. It returns the
// proposal's diff, the text of the result and the error of the write.
func makeRaise(ctx context.Context, a *admin.Admin, s subject, p proposal) ([]diff, string, error) {
	raise := a.Limits.Raise
	if _, seen := findRaise(s.ownConfig(p.Resource), p.Limit); seen {
		raise = a.Limits.ReplaceRaise // the visitor saw it in the diff
	}
	return p.Lines, "Raised.", raise(ctx, p.sourceScope(), p.Limit, p.Amount, p.Until)
}

// planGrant sets the typed amount of a grant in p, and writes nothing to the table. It returns the diff of the
// rest of the quota, with the end of its window. It fails for a malformed amount.
func planGrant(s subject, t target, f *changeForm, p *proposal) ([]diff, error) {
	l := t.limit.Limit
	var err error
	if p.Amount, err = s.parseAmount(l, f.Amount); err != nil {
		return nil, err
	}
	after := s.leftLine("a", l, t.limit.Remaining+p.Amount)
	if end, ok := notation.WindowAfter(l, s.view.now().In(s.view.options.Location), 1); ok {
		after.Text += ", until " + end.Format(shownTime)
	}
	before := s.leftLine("d", l, t.limit.Remaining)
	before.Text += " of " + formatAmount(s.isMoney(l), max(l.Capacity, l.Burst)) + " " + periodText(l)
	return []diff{before, after}, nil
}

// makeGrant adds the proposal's amount to the quota until its window ends, once for each operation. It returns
// the diff of the rest and the text of the result.
func makeGrant(ctx context.Context, a *admin.Admin, s subject, p proposal) ([]diff, string, error) {
	done, err := a.Buckets.GrantWindow(ctx, p.Entity, p.Resource, p.Operation, dynalimit.Amounts{p.Limit: p.Amount})
	if err != nil {
		return nil, "", err
	}
	return s.showRefill(done, p, "Granted.")
}

// refillTargets returns the choices of a refill: each bucket as a whole, followed by its limits. It leaves out
// limits of calls in flight.
func refillTargets(s subject) (all []target) {
	fits := func(l dynalimit.Limit) bool { return !l.IsConcurrent() }
	limits := s.limitTargets(fits)
	for i, t := range limits {
		if i == 0 || limits[i-1].resource != t.resource {
			whole := target{Value: t.resource + " ", Text: "all limits on " + t.resource, resource: t.resource}
			for _, other := range limits[i:] {
				if other.resource == t.resource {
					whole.all = append(whole.all, other.limit)
				}
			}
			all = append(all, whole)
		}
		t.all = []dynalimit.LimitStatus{t.limit}
		all = append(all, t)
	}
	return all
}

// planRefill returns the diff of the target's limits that are not full, and writes nothing to the table. It
// fails if all are full.
func planRefill(s subject, t target, _ *changeForm, _ *proposal) (lines []diff, err error) {
	for _, l := range t.all {
		if full := max(l.Limit.Capacity, l.Limit.Burst); l.Remaining < full {
			lines = append(lines, s.leftLine("d", l.Limit, l.Remaining), s.leftLine("a", l.Limit, full))
		}
	}
	if len(lines) == 0 {
		return nil, errors.New("it is full already")
	}
	return lines, nil
}

// makeRefill fills the proposal's limit, or all limits of the bucket if it names none, once for each operation.
// It returns the diff of the rest and the text of the result.
func makeRefill(ctx context.Context, a *admin.Admin, s subject, p proposal) ([]diff, string, error) {
	var limits []string
	if p.Limit != "" {
		limits = []string{p.Limit}
	}
	done, err := a.Buckets.Reset(ctx, p.Entity, p.Resource, p.Operation, limits...)
	if err != nil {
		return nil, "", err
	}
	return s.showRefill(done, p, "Refilled.")
}

// showRefill returns the diff and the text of a grant's or refill's result; for a repeated operation those of
// the first time, with a remark. For a missing bucket it returns only a text. Its error is always nil.
func (s subject) showRefill(done *admin.BucketRefill, p proposal, text string) (lines []diff, shown string, err error) {
	if done.Missing {
		return nil, "The bucket is gone: the next call makes a full one, and nothing was changed.", nil
	}
	for _, t := range s.limitTargets(func(l dynalimit.Limit) bool { return done.Before[l.Name] != done.After[l.Name] }) {
		if l := t.limit.Limit; t.resource == p.Resource {
			lines = append(lines, s.leftLine("d", l, done.Before[l.Name]), s.leftLine("a", l, done.After[l.Name]))
		}
	}
	if done.Repeated {
		text += " This was done at " + done.At.In(s.view.options.Location).Format(shownTime) + ", and is not repeated."
	}
	return lines, text, nil
}
