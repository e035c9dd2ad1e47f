package admin

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/config"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// longestRaise bounds how far ahead a raise ends.
const longestRaise = 90 * 24 * time.Hour

// Raise raises one token bucket of a scope until an instant, and hides no limit. Its capacity is
// then the given one, in whole tokens; the refill grows in proportion, and the burst is no less than
// the capacity. The limit may belong to the source or to a less specific one, and the largest limit or
// raise counts. A source without a list gets none by it. After the end the limits are as before
// without a write: a bucket loses its tokens above its burst.
//
// A raise is in force in this process at once, in others within their ConfigTTL. It ends at until, in
// whole seconds, at most 90 days ahead. Limits.Set, SetUnlimited and Delete of the source end it, and so
// does Lower. A calendar quota cannot be raised: Buckets.GrantWindow adds to its window.
//
// It fails with a *ValidationError before anything is written: for a limit that is not in force in the
// scope (only on a group of it, for instance), and for a capacity that is not above the one in force.
// It fails with a *ConflictError[Raise] if the source raises the limit further or for longer already:
// see ReplaceRaise.
func (l Limits) Raise(ctx context.Context, at Scope, name string, capacity int64, until time.Time) error {
	return raiseLimit(ctx, l, at, Raise{Name: name, Capacity: capacity, Until: until}, false)
}

// ReplaceRaise is Raise, and takes the place of a raise at the source that is larger or ends later.
func (l Limits) ReplaceRaise(ctx context.Context, at Scope, name string, capacity int64, until time.Time) error {
	return raiseLimit(ctx, l, at, Raise{Name: name, Capacity: capacity, Until: until}, true)
}

// Lower ends a raise of a source at once, and removes the source if nothing else is left in it. A limit without
// a raise is not an error.
func (l Limits) Lower(ctx context.Context, at Scope, name string) error {
	return l.editSource(ctx, "end a raise", at, func(stored *schema.ConfigItem) (*schema.ConfigItem, error) {
		if stored == nil {
			return nil, nil
		}
		next := *stored
		next.Raises = slices.DeleteFunc(slices.Clone(stored.Raises), func(r schema.ConfigRaise) bool { return r.Name == name })
		return next.OrNone(), nil
	})
}

// raiseLimit validates and stores a raise, with its end in whole seconds, after raising kinds_min in the
// version record if needed. It refuses a capacity that is not above the limit in force. Without replace it
// returns a *ConflictError[Raise] if the source has a larger or longer raise of the limit.
func raiseLimit(ctx context.Context, l Limits, at Scope, r Raise, replace bool) error {
	now := l.d.Clock.Now()
	if r.Until = r.Until.Truncate(time.Second); !r.Until.After(now) || r.Until.After(now.Add(longestRaise)) {
		return invalid("until", "is %s, and now is %s; give a later time, at most 90 days ahead", r.Until.Format(time.RFC3339), now.Format(time.RFC3339))
	}
	if reason := schema.LimitRule.Check(r.Name); reason != "" {
		return invalid("name", "%q: %s", r.Name, reason)
	}
	if err := cmp.Or(at.validate("scope."), l.d.checkChange(ctx)); err != nil {
		return err
	}
	if l.d.Compatible {
		return invalid("until", "is set, and zae-limiter does not know raises (RepositoryOptions.Compatible is set); set the limit")
	}
	c, err := l.d.compareSources(nil, false)
	if err != nil {
		return err
	}
	c.scopes = []Scope{at.normalized()}
	limit, err := c.limitToRaise(ctx, r.Name)
	if err != nil {
		return err
	}
	if r.PeriodSeconds = limit.PeriodSeconds(); r.Capacity <= limit.Capacity {
		return invalid("capacity", "is %d, and %s is %d for %s already; give more", r.Capacity, r.Name, limit.Capacity, at)
	}
	stored := storedRaises([]Raise{r})[0]
	if _, possible := (config.Raise{ConfigRaise: stored}).ApplyTo(limit); !possible {
		return invalid("capacity", "is %d, by which the capacity or the refill of %s would be above 10^12 tokens; give less", r.Capacity, r.Name)
	}
	if err := l.d.requireKinds(ctx, schema.SourceKinds); err != nil {
		return err
	}
	return l.editSource(ctx, "raise a limit", at, func(old *schema.ConfigItem) (*schema.ConfigItem, error) {
		var next schema.ConfigItem
		if old != nil {
			next = *old
		}
		if next.Unread {
			return nil, invalid(storedField(at.sourceOf()), "cannot be read; set them again")
		}
		raises := []Raise{r}
		for _, is := range raisesOf(next.Raises) {
			if is.Name != r.Name {
				raises = append(raises, is)
				continue
			}
			counts := is.PeriodSeconds == r.PeriodSeconds && is.Until.After(now)
			if counts && !replace && (is.Capacity > r.Capacity || is.Until.After(r.Until)) {
				return nil, &ConflictError[Raise]{Yours: r, Stored: is}
			}
		}
		next.Raises = storedRaises(raises)
		return &next, nil
	})
}

// limitToRaise returns the limit in force by that name at the source, the only one of the comparison. It
// returns an error for a quota and for calls in flight. If the limit is in force only on resources or groups,
// the error names at most five of them.
func (c *comparison) limitToRaise(ctx context.Context, name string) (schema.ConfigLimit, error) {
	if err := c.readRecords(ctx); err != nil {
		return schema.ConfigLimit{}, err
	}
	at := c.scopes[0]
	plan := cmp.Or(at.Plan, c.records[at.Entity].is.Plan)
	own, err := c.resolveViews(ctx, view{at: at, resource: at.Resource, plan: plan, planAfter: plan})
	if err != nil {
		return schema.ConfigLimit{}, err
	}
	if limit, ok := limitOf(own[0], name); ok {
		if limit.Window != "" {
			return limit, withFix(invalid("name", "%s is a quota, which is not raised until a time; add to its window", name), fault.GrantWindow)
		}
		if limit.IsSlots() {
			return limit, invalid("name", "%s limits calls in flight, which is not raised until a time; set a higher limit", name)
		}
		return limit, nil
	}
	var others []view
	if at.Resource == "" {
		if others, err = c.listViews(ctx); err != nil {
			return schema.ConfigLimit{}, err
		}
	}
	for _, group := range own[0].Groups {
		others = append(others, view{at: Scope{Everyone: at.Everyone, Entity: at.Entity, Plan: at.Plan, Resource: group}, resource: group, plan: plan, planAfter: plan})
	}
	verdicts, err := c.resolveViews(ctx, others...)
	if err != nil {
		return schema.ConfigLimit{}, err
	}
	var on []string
	for i := range verdicts {
		if _, ok := limitOf(verdicts[i], name); ok && len(on) < 5 {
			on = append(on, others[i].resource)
		}
	}
	if len(on) == 0 {
		return schema.ConfigLimit{}, withFix(invalid("name", "%s is no limit in force for %s; name one that is, or set it", name, at), fault.AddLimits)
	}
	return schema.ConfigLimit{}, invalid("at.resource", "is not set to a resource where %s is in force for %s; set it to %s", name, at, strings.Join(on, " or "))
}

// resolveViews reads the sources of views and returns the limits in force in each before the changes, without
// raises. The error names an unreadable source.
func (c *comparison) resolveViews(ctx context.Context, views ...view) ([]config.Verdict, error) {
	err := c.readSources(ctx, views)
	verdicts := make([]config.Verdict, len(views))
	for i, v := range views {
		if err == nil {
			verdicts[i], err = config.Resolve(v.sourceItems(v.plan, c.itemBefore))
		}
	}
	if wrong, ok := errors.AsType[*config.Malformed](err); ok {
		return nil, invalid(storedField(wrong.Source), "cannot be read: %v; set them again", wrong.Err)
	}
	return verdicts, err
}

// limitOf returns the limit in force with this name in a verdict; false if it lacks the name.
func limitOf(v config.Verdict, name string) (schema.ConfigLimit, bool) {
	i := slices.IndexFunc(v.Limits, func(l config.Limit) bool { return l.Name == name })
	if i < 0 {
		return schema.ConfigLimit{}, false
	}
	return v.Limits[i].ConfigLimit, true
}
