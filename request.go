package dynalimit

// AcquireOption changes one call.
type AcquireOption func(*acquireOptions)

type acquireOptions struct {
	limits        []Limit
	onUnavailable UnavailablePolicy
	cascade       CascadeMode
	ignoreUnknown bool
	also          []besides
}

// WithLimits adds limits to those of the entity, or replaces those of the same name; it
// removes none. The lease keeps them. Callers that disagree about the limits of one
// bucket take turns rewriting it, which is safe but slow.
func WithLimits(limits ...Limit) AcquireOption {
	return func(o *acquireOptions) { o.limits = append(o.limits, limits...) }
}

// WithOnUnavailable says what this call does when DynamoDB does not answer.
func WithOnUnavailable(p UnavailablePolicy) AcquireOption {
	return func(o *acquireOptions) { o.onUnavailable = p }
}

// WithCascade says how this call charges the entity and its parents.
func WithCascade(m CascadeMode) AcquireOption {
	return func(o *acquireOptions) { o.cascade = m }
}

// WithIgnoreUnknown skips the amounts of limits that no level has, also in what the lease
// is later corrected by. It is for callers that measure more than every entity is limited
// by. A misspelt name is skipped too, so give it only where the names are known to be
// right. Two things are a *ValidationError all the same: a limit that a level has, but not
// the one that won, because the entity would have it lifted unseen; and a call of which no
// name is a limit, because nothing would limit it.
func WithIgnoreUnknown() AcquireOption {
	return func(o *acquireOptions) { o.ignoreUnknown = true }
}

// WithAlso charges the buckets of another resource too, with amounts of its own: those of the
// entity and of the parents that the call charges, by the limits that records made for that
// resource have, as of a group (admin.LimitConfig.Groups). Given twice for one resource, the
// amounts are added; of a group that the call charges anyway, they are taken besides. What the
// lease is later corrected by changes what is taken there by as much, for the limits that
// amounts names; where nothing is used of a limit any more, nothing is kept of it.
func WithAlso(resource string, amounts Amounts) AcquireOption {
	return func(o *acquireOptions) { o.also = append(o.also, besides{resource, amounts}) }
}

// request is a call whose input has been checked.
type request struct {
	entity, resource string
	amounts          Amounts
	// named are the amounts of all limits that the call names, those of WithAlso too: what the
	// lease is corrected from.
	named Amounts
	// group means that the resource is a group, which no call charges alone.
	group bool
	opts  acquireOptions
}

func newRequest(entity, resource string, amounts Amounts, opts []AcquireOption) (request, error) {
	r := request{entity: entity, resource: resource, amounts: amounts, named: amounts}
	if len(opts) > 0 {
		r.opts = applyOptions(opts)
	}
	if err := checkEntityID("entity", entity); err != nil {
		return r, err
	}
	if err := checkResource(resource); err != nil {
		return r, err
	}
	if err := checkAmounts(amounts, false); err != nil {
		return r, err
	}
	if err := checkPolicy("WithOnUnavailable", r.opts.onUnavailable); err != nil {
		return r, err
	}
	if err := checkCascade("WithCascade", r.opts.cascade); err != nil {
		return r, err
	}
	if len(r.opts.limits) > 0 {
		var err error
		if r.opts.limits, err = CheckLimits("WithLimits", r.opts.limits); err != nil {
			return r, err
		}
	}
	if len(r.opts.also) > 0 {
		return r, r.nameAlso()
	}
	return r, nil
}

// applyOptions are the options of a call in one struct.
func applyOptions(opts []AcquireOption) acquireOptions {
	var o acquireOptions
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	return o
}
