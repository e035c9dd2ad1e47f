package dynalimit

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// What a call charges besides the bucket of its resource: groups of the resource, and what
// WithAlso asks for.

// besides are the amounts that a call charges on another resource.
type besides struct {
	resource string
	amounts  Amounts
}

// nameAlso checks what WithAlso asks for, one entry a resource, and names its limits.
func (r *request) nameAlso() error {
	given := r.opts.also
	r.opts.also, r.named = nil, Amounts{}
	maps.Copy(r.named, r.amounts)
	for _, b := range given {
		if reason := schema.CheckGroup(b.resource); reason != "" {
			return invalid("WithAlso", "the resource %s", reason)
		}
		if b.resource == r.resource {
			return invalid("WithAlso", "names %q, which is the call's own resource; add to the call's amounts", b.resource)
		}
		var wrong *ValidationError
		if errors.As(checkAmounts(b.amounts, false), &wrong) {
			wrong.Field = "WithAlso(" + b.resource + ")." + wrong.Field
			return wrong
		}
		i := slices.IndexFunc(r.opts.also, func(o besides) bool { return o.resource == b.resource })
		if i < 0 {
			r.opts.also = append(r.opts.also, besides{b.resource, maps.Clone(b.amounts)})
			continue
		}
		r.opts.also[i].amounts = sum(r.opts.also[i].amounts, b.amounts)
	}
	for _, b := range r.opts.also {
		for name, n := range b.amounts {
			if n > maxTokens {
				return invalid("WithAlso("+b.resource+").amounts["+name+"]", "is %d in all; at most %d tokens are allowed", n, int64(maxTokens))
			}
			if _, asked := r.amounts[name]; !asked {
				r.named[name] = max(r.named[name], n)
			}
		}
	}
	return nil
}

// sum is a with b added.
func sum(a, b Amounts) Amounts {
	all := Amounts{}
	maps.Copy(all, a)
	for name, n := range b {
		all[name] += n
	}
	return all
}

// part is what one bucket of a call's level is asked.
type part struct {
	amounts Amounts
	share   *share
}

// share is how what a bucket is charged differs from what the lease uses, for calls with
// WithAlso; nil of other calls.
type share struct {
	// more is what the bucket is charged of a limit beyond what the lease uses, or below it.
	more []plan.Signed
	// alone means that no other limits than those of more are charged.
	alone bool
}

// part is what is asked of the bucket of the call's resource, or, by groups, of those of a
// group. The resource of WithAlso is charged its amounts alone, unless the call charges that
// group anyway.
func (r *request) part(resource string, grouped bool) part {
	if len(r.opts.also) == 0 {
		return part{amounts: r.amounts}
	}
	p := part{share: &share{alone: !grouped}}
	if grouped {
		p.amounts = r.amounts
	}
	if i := slices.IndexFunc(r.opts.also, func(b besides) bool { return b.resource == resource }); i >= 0 {
		p.amounts = sum(p.amounts, r.opts.also[i].amounts)
	}
	for _, name := range r.named.names() {
		if n, asked := p.amounts[name]; asked || grouped {
			p.share.more = append(p.share.more, plan.Signed{Name: name, Amount: (n - r.named[name]) * milli})
		}
	}
	return p
}

// others are the groups that a call charges at a level beside its resource: those of the
// resource, and the resources of WithAlso.
func (r *request) others(groups []string) []string {
	if len(r.opts.also) == 0 {
		return groups
	}
	all := slices.Clone(groups)
	for _, b := range r.opts.also {
		if !slices.Contains(groups, b.resource) {
			all = append(all, b.resource)
		}
	}
	return all
}

// resolveGroups is resolve for the groups that a call charges beside own. Those that are not
// known are read side by side, and the parent with them, which is resolved next.
func (rs *routes) resolveGroups(ctx context.Context, r *request, own *resolvedConfig, entity string, p *patience) ([]route, error) {
	groups := r.others(own.groups)
	if len(groups) == 0 { // the usual case
		return nil, nil
	}
	found, errs := make([]route, len(groups)), make([]error, len(groups))
	unread := make([]func(), 0, len(groups)+1)
	for i, group := range groups {
		key := configKey{entity, group, true}
		resolve := func() { found[i], errs[i] = rs.resolve(ctx, key, p) }
		if rs.repo.known(key) == nil {
			unread = append(unread, resolve)
		} else {
			resolve()
		}
	}
	if parent := r.keyOf(own.charged()); len(unread) > 0 && parent.entity != "" && rs.repo.known(parent) == nil {
		unread = append(unread, func() { _, _ = rs.resolve(ctx, parent, p) })
	}
	if len(unread) > 0 && p != nil {
		p.begin(ctx) // before they share it
	}
	var reads sync.WaitGroup
	for _, read := range unread {
		reads.Go(read)
	}
	reads.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// covers reports whether a limit is charged.
func (s *share) covers(name string) bool {
	if s == nil || !s.alone {
		return true
	}
	return slices.ContainsFunc(s.more, func(m plan.Signed) bool { return m.Name == name })
}

// among are the amounts of limits that are charged.
func (s *share) among(amounts Amounts) Amounts {
	if s == nil || !s.alone {
		return amounts
	}
	amounts = maps.Clone(amounts)
	maps.DeleteFunc(amounts, func(name string, _ int64) bool { return !s.covers(name) })
	return amounts
}

// of is what a bucket is charged for what the lease uses: nothing where nothing is used.
func (s *share) of(used []plan.Signed) []plan.Signed {
	if s == nil {
		return used
	}
	charged := make([]plan.Signed, 0, len(used))
	for _, u := range used {
		if !s.covers(u.Name) {
			continue
		}
		if more, _ := plan.AmountOf(s.more, u.Name); u.Amount > 0 {
			u.Amount = max(0, u.Amount+more)
		}
		charged = append(charged, u)
	}
	return charged
}
