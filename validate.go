package dynalimit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dynalimit/dynalimit/internal/admin"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// maxTokens bounds every amount, in whole tokens: 10^12, so that a bucket's
	// numbers and the sums of a batch stay far from the largest int64.
	maxTokens = 1_000_000_000_000
	// maxPeriod bounds a refill period: longer than any billing cycle.
	maxPeriod = 366 * 24 * time.Hour
	// milli is the number of millitokens in a token.
	milli = 1000
)

// What was never made right is said, not left to a nil dereference.

// usable refuses calls of a repository that NewRepository did not make, without a
// context, and with one that has ended: nothing was sent then.
func (r *Repository) usable(ctx context.Context) error {
	if !r.made() {
		return invalid("repository", "was not made by NewRepository; make one with dynalimit.NewRepository(client, table, nil)")
	}
	if err := given(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// made reports whether NewRepository made the repository.
func (r *Repository) made() bool { return r != nil && r.connection != nil }

func given(ctx context.Context) error { return problem.NoContext(ctx, "dynalimit") }

// checkNow refuses a clock whose times cannot be stored.
func checkNow(now func() time.Time) error {
	if reason := ddb.CheckSource(now); reason != "" {
		return invalid("options.Now", "%s", reason)
	}
	return nil
}

func checkEntityID(field, id string) error {
	if reason := schema.CheckEntity(id); reason != "" {
		return invalid(field, "%s", reason)
	}
	return nil
}

func checkResource(resource string) error {
	if reason := schema.CheckResource(resource); reason != "" {
		return invalid("resource", "%s", reason)
	}
	return nil
}

func checkPolicy(field string, p UnavailablePolicy) error {
	if p != "" && p != Block && p != Allow && p != Local {
		return invalid(field, "is %q; give dynalimit.Block, dynalimit.Allow or dynalimit.Local", p)
	}
	return nil
}

func checkCascade(field string, m CascadeMode) error {
	if m != "" && m != CascadeParallel && m != CascadeTransaction {
		return invalid(field, "is %q; give dynalimit.CascadeParallel or dynalimit.CascadeTransaction", m)
	}
	return nil
}

// normalizeLimits checks a list of limits, fills in the defaults and sorts it
// by name. An empty list is an error: it would admit everything or nothing.
func normalizeLimits(field string, limits []Limit) ([]Limit, error) {
	if len(limits) == 0 {
		return nil, invalid(field, "is empty; give at least one limit, for example dynalimit.PerMinute(\"rpm\", 100)")
	}
	if len(limits) > schema.MaxLimits {
		return nil, invalid(field, "has %d limits; a bucket holds at most %d", len(limits), schema.MaxLimits)
	}
	out := make([]Limit, len(limits))
	for i, l := range limits {
		l = l.withDefaults()
		if err := checkLimit(fmt.Sprintf("%s[%d]", field, i), l); err != nil {
			return nil, err
		}
		out[i] = l
	}
	slices.SortFunc(out, func(a, b Limit) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(out); i++ {
		if out[i].Name == out[i-1].Name {
			return nil, invalid(field, "names %q twice; give each limit once", out[i].Name)
		}
	}
	return out, nil
}

func checkLimit(field string, l Limit) error {
	if reason := schema.CheckLimitName(l.Name); reason != "" {
		return invalid(field+".Name", "%s", reason)
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"Capacity", l.Capacity}, {"Burst", l.Burst}, {"RefillAmount", l.RefillAmount}} {
		if n.value < 1 || n.value > maxTokens {
			return invalid(field+"."+n.name, "is %d for %q; give 1 to %d tokens", n.value, l.Name, int64(maxTokens))
		}
	}
	if l.RefillPeriod < time.Millisecond || l.RefillPeriod > maxPeriod || l.RefillPeriod%time.Millisecond != 0 {
		return invalid(field+".RefillPeriod", "is %v for %q; give whole milliseconds up to %v", l.RefillPeriod, l.Name, maxPeriod)
	}
	return nil
}

// checkStored also refuses what configuration items cannot hold.
func checkStored(field string, limits []Limit) error {
	for _, l := range limits {
		if l.RefillPeriod%time.Second != 0 {
			return invalid(field+".RefillPeriod", "is %v for %q; stored limits refill in whole seconds (WithLimits takes milliseconds)", l.RefillPeriod, l.Name)
		}
	}
	return nil
}

// checkAmounts refuses an amount that no limit can hold, and negative ones
// where only Adjust may be signed.
func checkAmounts(amounts Amounts, signed bool) error {
	if len(amounts) == 0 {
		return invalid("amounts", "is empty; name at least one limit, for example dynalimit.Amounts{\"rpm\": 1}")
	}
	for name, n := range amounts {
		if reason := schema.CheckLimitName(name); reason != "" {
			return invalid("amounts", "limit name %s", reason)
		}
		if n < 0 && !signed {
			return invalid("amounts["+name+"]", "is %d; give 0 or more (only Lease.Adjust takes negative amounts, and gives them back)", n)
		}
		if n > maxTokens || n < -maxTokens {
			return invalid("amounts["+name+"]", "is %d; at most %d tokens are allowed", n, int64(maxTokens))
		}
	}
	return nil
}

// compatible refuses what zae-limiter refuses, on a repository that is to stay
// readable for it: some resources, and bursts below the capacity.
func (r *Repository) compatible(resource, field string, limits []Limit) error {
	if !r.readable {
		return nil
	}
	if resource != "" && resource != schema.DefaultResource {
		if reason := schema.CheckCompatibleResource(resource); reason != "" {
			return invalid("resource", "%s (RepositoryOptions.Compatible is set: zae-limiter refuses others)", reason)
		}
	}
	for _, l := range limits {
		if l = l.withDefaults(); l.Burst < l.Capacity {
			return invalid(field, "has a burst of %d for %q, below its capacity of %d; raise the burst or lower the capacity (RepositoryOptions.Compatible is set: zae-limiter refuses such limits)",
				l.Burst, l.Name, l.Capacity)
		}
	}
	return nil
}

// Validate returns the *ValidationError with which SetConfigs would refuse the change,
// whatever is stored; nil if it can be made. It asks nobody, and knows nothing of
// RepositoryOptions.Compatible.
func (c ScopedConfig) Validate() error {
	_, err := c.item("")
	return err
}

// item is what the change leaves stored, nil for nothing. It fails for a change that cannot
// be made. Fields are named with a prefix.
func (c ScopedConfig) item(prefix string) (*schema.ConfigItem, error) {
	if err := c.Scope.check(prefix + "scope."); err != nil {
		return nil, err
	}
	if c.Delete {
		if c.Config.says() || c.Config.ManagedBy != "" {
			return nil, invalid(prefix+"delete", "is set beside a configuration; leave one of them out")
		}
		return nil, checkConfigVersion(prefix+"config.version", c.Config.Version)
	}
	next, err := c.Config.stored(prefix + "config.")
	return &next, err
}

// checkConfigVersion refuses a version that no level can have.
func checkConfigVersion(field string, version int64) error {
	if version < AnyVersion {
		return invalid(field, "is %d; give the version that was read, 0 for none, or AnyVersion", version)
	}
	return nil
}

// Validate returns the *ValidationError with which CreateEntity would refuse the entity,
// whatever is stored; nil if it can be made. It asks nobody.
func (e Entity) Validate() error { return checkEntity(e) }

func checkEntity(e Entity) error {
	if err := checkEntityID("entity.ID", e.ID); err != nil {
		return err
	}
	if e.ParentID != "" {
		if err := checkEntityID("entity.ParentID", e.ParentID); err != nil {
			return err
		}
	}
	if e.ParentID == e.ID {
		return invalid("entity.ParentID", "is the entity itself (%q); name another one, or none", e.ID)
	}
	if e.Cascade && e.ParentID == "" {
		return invalid("entity.Cascade", "is true without a parent to charge; set ParentID too, or leave Cascade out")
	}
	if e.Plan != "" {
		if err := checkEntityID("entity.Plan", e.Plan); err != nil {
			return err
		}
	}
	return checkDetails(e)
}

// checkDetails refuses what of an entity is for people and tools alone.
func checkDetails(e Entity) error {
	if len(e.Name) > maxName || !utf8.ValidString(e.Name) {
		return invalid("entity.Name", "has %d bytes; give UTF-8 of at most %d", len(e.Name), maxName)
	}
	if reason := schema.CheckManager(e.ManagedBy); reason != "" {
		return invalid("entity.ManagedBy", "%s", reason)
	}
	if reason := schema.CheckMetadata(e.Metadata); reason != "" {
		return invalid("entity.Metadata", "%s", reason)
	}
	return nil
}

// checkUpdate is checkEntity for one that is to replace what was read.
func checkUpdate(e Entity) error {
	if err := checkEntity(e); err != nil {
		return err
	}
	if e.Version < 0 {
		return invalid("entity.Version", "is %d; give the one that GetEntity returned", e.Version)
	}
	return nil
}

// within is an error for input whose field lies in another one.
func within(prefix string, err error) error {
	if v, ok := errors.AsType[*ValidationError](err); ok {
		inner := *v
		inner.Field = prefix + v.Field
		return &inner
	}
	return err
}

func checkPlan(field, plan string) error {
	if reason := schema.CheckEntity(plan); reason != "" {
		return invalid(field, "%s", reason)
	}
	return nil
}

// check refuses a scope that names nothing. Fields are named with a prefix.
func (s Scope) check(prefix string) error {
	s = s.normal()
	switch {
	case s.Entity != "" && s.Plan != "":
		return invalid(prefix+"plan", "is %q beside the entity %q; name one of them", s.Plan, s.Entity)
	case s.Entity != "":
		if err := checkEntityID(prefix+"entity", s.Entity); err != nil {
			return err
		}
	case s.Plan != "":
		if err := checkPlan(prefix+"plan", s.Plan); err != nil {
			return err
		}
	}
	if s.Resource == "" {
		return nil
	}
	if reason := schema.CheckResource(s.Resource); reason != "" {
		return invalid(prefix+"resource", "%s", reason)
	}
	return nil
}

// says reports whether a configuration says anything.
func (c LimitConfig) says() bool {
	return len(c.Limits) > 0 || c.Unlimited || c.Blocked || c.OnUnavailable != ""
}

// stored is the configuration as the table has it. It fails for one that cannot be
// stored. Fields are named with a prefix.
func (c LimitConfig) stored(prefix string) (schema.ConfigItem, error) {
	item := schema.ConfigItem{Unlimited: c.Unlimited, Blocked: c.Blocked, OnUnavailable: string(c.OnUnavailable), ManagedBy: c.ManagedBy, Version: c.Version}
	if err := checkPolicy(prefix+"onUnavailable", c.OnUnavailable); err != nil {
		return item, err
	}
	if reason := schema.CheckManager(c.ManagedBy); reason != "" {
		return item, invalid(prefix+"managedBy", "%s", reason)
	}
	if err := checkConfigVersion(prefix+"version", c.Version); err != nil {
		return item, err
	}
	if !c.says() {
		return item, invalid(prefix+"limits", "are none, and the level says nothing else; give at least one limit, or remove the level with DeleteConfig")
	}
	if len(c.Limits) == 0 {
		return item, nil
	}
	if c.Unlimited {
		return item, invalid(prefix+"unlimited", "is set beside limits; leave one of them out")
	}
	var err error
	item.Limits, err = configLimits(prefix+"limits", c.Limits)
	return item, err
}

// setupOf is a checked setup.
func (r *Repository) setupOf(s EntitySetup) (admin.Setup, error) {
	setup := admin.Setup{Record: recordOf(s.Entity)}
	if err := checkEntity(s.Entity); err != nil {
		return setup, err
	}
	if len(s.Limits) > admin.MostLimits {
		return setup, invalid("limits", "are for %d resources; give at most %d with the entity, and the others with SetConfigs", len(s.Limits), admin.MostLimits)
	}
	for _, resource := range slices.Sorted(maps.Keys(s.Limits)) {
		field, limits := fmt.Sprintf("limits[%s]", resource), s.Limits[resource]
		at := Scope{Entity: s.Entity.ID, Resource: resource}
		if err := at.check(field + "."); err != nil {
			return setup, err
		}
		if _, both := s.Limits[""]; both && resource == schema.DefaultResource {
			return setup, invalid(field, "is the default, which limits[] is too; leave one of them out")
		}
		stored, err := configLimits(field, limits)
		if err != nil {
			return setup, err
		}
		if err := r.compatible(resource, field, limits); err != nil {
			return setup, err
		}
		setup.Limits = append(setup.Limits, admin.ConfigEdit{Owner: at.owner(), Edit: replacingLimits(stored)})
	}
	return setup, nil
}
