// Package decision explains the decision about a call without making it. It only reads.
package decision

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/sources"
)

// Outcome is the decision about a call.
type Outcome string

const (
	// Allowed means that the call would be admitted.
	Allowed Outcome = "allowed"
	// Denied means that an amount does not fit now.
	Denied Outcome = "denied"
	// Blocked means that the configuration admits nothing.
	Blocked Outcome = "blocked"
	// Unlimited means that no bucket would be charged.
	Unlimited Outcome = "unlimited"
	// Unconfigured means that no source of the configuration has limits. Then the limits that a
	// service passes to New apply, which are not in the table.
	Unconfigured Outcome = "unconfigured"
)

// Decision is the decision about a call now. It is a plain value; `check --json` prints its
// JSON.
type Decision struct {
	EntityID string            `json:"entity_id"`
	Resource string            `json:"resource"`
	At       time.Time         `json:"at"`
	Asked    dynalimit.Amounts `json:"asked,omitempty"`
	// Batch means that the call is a batch call, to which each limit is smaller by its reserve.
	Batch   bool    `json:"batch,omitempty"`
	Outcome Outcome `json:"outcome"`
	// Wait is the time until the call would be admitted. It is nil if the call would be
	// admitted now or is blocked.
	Wait *Wait `json:"wait,omitempty"`
	// OnUnavailable is the outage policy. PolicyOf is the entity and PolicySource the source that
	// it comes from. Both are empty for a policy that a service passes to New.
	OnUnavailable dynalimit.UnavailablePolicy `json:"on_unavailable,omitempty"`
	PolicyOf      string                      `json:"policy_of,omitempty"`
	PolicySource  sources.Source              `json:"policy_source,omitempty"`
	// Chain is the entity and the charged parents, the entity first.
	Chain []Link `json:"chain"`
}

// Wait is a waiting time.
type Wait struct {
	// Never means that waiting is useless: the amount exceeds the limit's burst.
	Never bool `json:"never,omitempty"`
	// MS is the wait in milliseconds, and Until its end. Both are absent if Never is true.
	MS    int64      `json:"ms,omitempty"`
	Until *time.Time `json:"until,omitempty"`
	// For is the wait.
	For time.Duration `json:"-"`
}

// Link is an entity of the chain with its bucket on the resource.
type Link struct {
	EntityID string `json:"entity_id"`
	Plan     string `json:"plan,omitempty"`
	Bucket
	// Groups are the entity's buckets on the resource's groups.
	Groups []Group `json:"groups,omitempty"`
}

// Group is an entity's bucket on a group of the resource.
type Group struct {
	Name string `json:"group"`
	Bucket
}

// Bucket is the limits of an entity on a resource or a group.
type Bucket struct {
	Source    sources.Source `json:"source,omitempty"`
	Blocked   sources.Source `json:"blocked,omitempty"`
	Unlimited bool           `json:"unlimited,omitempty"`
	// Limits are the limits in force with their remaining tokens. It is empty if the call is
	// blocked and nothing was read.
	Limits []Limit `json:"limits"`
	// Raised are the limits with a temporary raise.
	Raised []dynalimit.RaisedLimit `json:"raised,omitempty"`
	// Sources are the applicable sources, the most specific first. For a group they are only the
	// sources of the group itself.
	Sources []Source `json:"sources"`
}

// HasPlanConfig reports whether a source of the entity's plan is stored for the resource, its groups or as
// default. It is false without a plan.
func (l Link) HasPlanConfig() bool {
	says := func(one Source) bool { return one.Scope.Plan != "" && one.Config.Version != 0 }
	return slices.ContainsFunc(l.Sources, says) || slices.ContainsFunc(l.Groups, func(g Group) bool { return slices.ContainsFunc(g.Sources, says) })
}

// HasConfig reports whether any source has limits for the bucket, makes it unlimited, or blocks it, by Source
// and Blocked.
func (b Bucket) HasConfig() bool { return b.Source != "" || b.Blocked != "" }

// Limit is a limit in force.
type Limit struct {
	Limit     dynalimit.Limit `json:"limit"`
	Source    sources.Source  `json:"source,omitempty"`
	Asked     int64           `json:"asked,omitempty"`
	Remaining int64           `json:"remaining"`
	Denied    bool            `json:"denied,omitempty"`
	// WouldDeny means that the limit is in shadow and would otherwise deny the call.
	WouldDeny bool  `json:"would_deny,omitempty"`
	Wait      *Wait `json:"wait,omitempty"`
	// FullMS is the time until the bucket is full, in milliseconds.
	FullMS int64 `json:"full_ms,omitempty"`
	// WindowEnds is the end of a quota's window. It is nil for a token bucket.
	WindowEnds *time.Time `json:"window_ends,omitempty"`
}

// Source is a source of the configuration.
type Source struct {
	Source sources.Source    `json:"source"`
	Scope  admin.Scope       `json:"scope"`
	Config admin.LimitConfig `json:"config,omitzero"`
	// InForce is true if the source decides, with its limits or as unlimited.
	InForce bool `json:"in_force,omitempty"`
	// HiddenBy is the source that hides the limits of this one.
	HiddenBy sources.Source `json:"hidden_by,omitempty"`
}

// RequestsMoney reports whether the call requests tokens of a limit of money at any bucket of the chain. It is
// false before the limits' statuses are read.
func (d *Decision) RequestsMoney() bool {
	for i := range d.Chain {
		for _, b := range d.Chain[i].bucketsByName(d.Resource) {
			if slices.ContainsFunc(b.Limits, func(l Limit) bool { return l.Asked > 0 && l.Limit.Unit != "" }) {
				return true
			}
		}
	}
	return false
}

// mostLinks is the maximal length of the chain. A service charges no more entities.
const mostLinks = 8

// Read returns the decision about a call for the amounts asked now, without taking tokens; batch makes it a
// batch call. The outcome is Unconfigured if an entity of the chain has no configured source. The errors are
// those of Check and ResolveLimits.
func Read(ctx context.Context, repo *dynalimit.Repository, entity, resource string, asked dynalimit.Amounts, batch bool, now time.Time) (*Decision, error) {
	d := &Decision{EntityID: entity, Resource: resource, At: now, Asked: asked, Batch: batch}
	own := false                                                                                           // for parents only their own sources and their plan's sources count
	for id, seen := entity, []string{}; id != "" && len(seen) < mostLinks && !slices.Contains(seen, id); { // Check reports a cycle
		resolved, err := repo.ResolveLimits(ctx, id, resource)
		if err != nil {
			return nil, err
		}
		if err := d.addLink(ctx, repo, resolved, own); err != nil {
			return nil, err
		}
		if seen, id = append(seen, id), resolved.ParentID; resolved.Detached {
			break
		}
		own = !resolved.Cascade
	}
	if !d.isConfigured() {
		d.Outcome = Unconfigured
		return d, nil
	}
	return d, d.checkBuckets(ctx, repo)
}

// isConfigured reports whether each entity of the chain has a configured source on the resource or a group. It
// also returns true as soon as it meets a blocked bucket.
func (d *Decision) isConfigured() bool {
	for _, link := range d.Chain {
		says := link.HasConfig()
		for _, b := range link.bucketsByName(d.Resource) {
			if b.Blocked != "" {
				return true
			}
			says = says || b.HasConfig()
		}
		if !says {
			return false
		}
	}
	return true
}

// bucketsByName returns pointers to l's buckets, so that callers can change them. The bucket on the resource is
// under its name, those on groups under theirs.
func (l *Link) bucketsByName(resource string) map[string]*Bucket {
	all := map[string]*Bucket{resource: &l.Bucket}
	for i := range l.Groups {
		all[l.Groups[i].Name] = &l.Groups[i].Bucket
	}
	return all
}

// addLink appends an entity with its buckets on the resource and its groups to the chain. If own is true, only
// sources made for the entity or its plan count. Then it appends the entity only if one of them is configured.
func (d *Decision) addLink(ctx context.Context, repo *dynalimit.Repository, r dynalimit.ResolvedLimits, own bool) error {
	bucket, err := d.readBucket(ctx, repo, r, own, SourcesOf(r.EntityID, r.Plan, r.Resource))
	if err != nil {
		return err
	}
	link := Link{EntityID: r.EntityID, Plan: r.Plan, Bucket: bucket}
	says := bucket.HasConfig()
	for _, group := range r.Groups {
		of, err := d.readBucket(ctx, repo, group, own, slices.DeleteFunc(SourcesOf(group.EntityID, group.Plan, group.Resource), func(l Source) bool { return l.Scope.Resource == "" }))
		if err != nil {
			return err
		}
		link.Groups = append(link.Groups, Group{group.Resource, of})
		says = says || of.HasConfig()
	}
	if says || !own {
		d.Chain = append(d.Chain, link)
	}
	return nil
}

// readBucket returns the bucket of the resolved limits r, with the configurations of the sources in of, and no
// status yet. For a parent only sources made for it or its plan block; if own is true, no others count at all.
// It sets d's outage policy if no earlier bucket has.
func (d *Decision) readBucket(ctx context.Context, repo *dynalimit.Repository, r dynalimit.ResolvedLimits, own bool, of []Source) (Bucket, error) {
	if len(d.Chain) > 0 && !r.Blocked.IsOwn() { // decided for the calling entity
		r.Blocked = ""
	}
	if own {
		of = slices.DeleteFunc(of, func(l Source) bool { return !l.Source.IsOwn() })
		if !r.Source.IsOwn() {
			r.Source, r.Unlimited = "", false
		}
	}
	if d.PolicySource == "" && r.PolicySource != "" {
		d.PolicySource, d.PolicyOf, d.OnUnavailable = r.PolicySource, r.EntityID, r.OnUnavailable
	}
	return Bucket{Source: r.Source, Blocked: r.Blocked, Unlimited: r.Unlimited, Limits: []Limit{}, Raised: r.Raised, Sources: of}, readSources(ctx, repo, r, of)
}

// checkBuckets checks the call against its buckets, without taking tokens. It sets the outcome and the outage
// policy, and adds the limits' statuses to the buckets of the chain.
func (d *Decision) checkBuckets(ctx context.Context, repo *dynalimit.Repository) error {
	limiter, err := dynalimit.New(repo, nil)
	if err != nil {
		return err
	}
	var opts []dynalimit.AcquireOption
	if d.Batch {
		opts = append(opts, dynalimit.WithBatch())
	}
	report, err := limiter.Check(ctx, d.EntityID, d.Resource, d.Asked, opts...)
	if err == nil {
		d.applyReport(report)
	}
	return cmp.Or(err, limiter.Close(context.WithoutCancel(ctx)))
}

// applyReport sets the outcome, the wait of a denied call, and the outage policy if no source has set it. It
// appends the status of each limit to its bucket of the chain, and skips buckets that are not in the chain.
func (d *Decision) applyReport(r *dynalimit.Report) {
	switch {
	case r.Blocked != nil:
		d.Outcome = Blocked
	case r.Unlimited:
		d.Outcome = Unlimited
	case r.Allowed:
		d.Outcome = Allowed
	default:
		d.Outcome, d.Wait = Denied, d.newWait(r.RetryAfter)
	}
	d.OnUnavailable = cmp.Or(d.OnUnavailable, r.OnUnavailable)
	for _, s := range r.Statuses {
		l := Limit{Limit: s.Limit, Source: s.Source, Asked: s.Requested, Remaining: s.Remaining, Denied: s.Exceeded, WouldDeny: s.WouldDeny, FullMS: s.Reset.Milliseconds()}
		if s.Exceeded || s.WouldDeny {
			l.Wait = d.newWait(s.RetryAfter)
		}
		if end, quota := notation.WindowAfter(s.Limit, d.At, 1); quota {
			l.WindowEnds = &end
		}
		for i := range d.Chain {
			if b := d.Chain[i].bucketsByName(d.Resource)[s.Resource]; b != nil && d.Chain[i].EntityID == s.EntityID {
				b.Limits = append(b.Limits, l)
			}
		}
	}
}

// newWait converts w, the time until a call fits, to a Wait. It sets MS and Until, or only Never if w is
// dynalimit.Never.
func (d *Decision) newWait(w time.Duration) *Wait {
	if w == dynalimit.Never {
		return &Wait{Never: true, For: w}
	}
	until := d.At.Add(w)
	return &Wait{MS: w.Milliseconds(), Until: &until, For: w}
}

// SourcesOf returns the six sources that apply to an entity, its plan and a resource, the most specific first,
// without their configurations. If plan is "", the two of the plan are missing.
func SourcesOf(entity, plan, resource string) []Source {
	all := []Source{
		{Source: sources.Entity, Scope: admin.Scope{Entity: entity, Resource: resource}},
		{Source: sources.EntityDefault, Scope: admin.Scope{Entity: entity}},
	}
	if plan != "" {
		all = append(all,
			Source{Source: sources.Plan, Scope: admin.Scope{Plan: plan, Resource: resource}},
			Source{Source: sources.PlanDefault, Scope: admin.Scope{Plan: plan}})
	}
	return append(all,
		Source{Source: sources.Resource, Scope: admin.Scope{Everyone: true, Resource: resource}},
		Source{Source: sources.System, Scope: admin.Scope{Everyone: true}})
}

// readSources reads the configuration of each source and sets it in all, in place. It also sets InForce, and
// HiddenBy for a source with limits that is not in force, according to r.
func readSources(ctx context.Context, repo *dynalimit.Repository, r dynalimit.ResolvedLimits, all []Source) error {
	scopes := make([]admin.Scope, len(all))
	for i := range all {
		scopes[i] = all[i].Scope
	}
	configs, err := admin.New(repo).Limits.GetConfigs(ctx, scopes)
	if err != nil {
		return err
	}
	for i := range all {
		l := &all[i]
		l.Config = configs[i].Config
		l.InForce = l.Source == r.Source || slices.Contains(r.From, l.Source)
		if !l.InForce && (len(l.Config.Limits) > 0 || l.Config.Unlimited) {
			l.HiddenBy = r.Source
		}
	}
	return nil
}
