package dynalimit

import (
	"errors"
	"maps"
	"slices"

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
	groups = slices.DeleteFunc(groups, func(group string) bool { return group == r.resource }) // charged once
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

// alone is the call without what WithAlso names.
func (r *request) alone() *request {
	if len(r.opts.also) == 0 {
		return r
	}
	own := *r
	own.named, own.opts.also = r.amounts, nil
	return &own
}
