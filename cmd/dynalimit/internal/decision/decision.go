// Package decision explains what an acquire would be told, and why. It reads, and writes
// nothing.
package decision

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/levels"
)

// Outcome is the answer to an acquire.
type Outcome string

const (
	// Allowed means that it would be admitted.
	Allowed Outcome = "allowed"
	// Denied means that an amount does not fit now.
	Denied Outcome = "denied"
	// Blocked means that the configuration admits nothing.
	Blocked Outcome = "blocked"
	// Unlimited means that no bucket would be charged.
	Unlimited Outcome = "unlimited"
	// Unconfigured means that no level of the configuration has limits: then those that a
	// service gives to New apply, which the table does not know.
	Unconfigured Outcome = "unconfigured"
)

// Decision is what an acquire would be told now. It is a plain value, and its JSON is what
// `check --json` prints.
type Decision struct {
	EntityID string            `json:"entity_id"`
	Resource string            `json:"resource"`
	At       time.Time         `json:"at"`
	Asked    dynalimit.Amounts `json:"asked,omitempty"`
	Outcome  Outcome           `json:"outcome"`
	// Wait is until it would be admitted; nil where it would be now, or is blocked.
	Wait *Wait `json:"wait,omitempty"`
	// OnUnavailable is what the call does if DynamoDB does not answer, PolicyOf the entity
	// and PolicyLevel the level that say so; those are empty for what a service gives to New.
	OnUnavailable dynalimit.UnavailablePolicy `json:"on_unavailable,omitempty"`
	PolicyOf      string                      `json:"policy_of,omitempty"`
	PolicyLevel   levels.Level                `json:"policy_level,omitempty"`
	// Chain is the entity and the parents that the call charges, the entity first.
	Chain []Link `json:"chain"`
}

// Wait is how long something takes.
type Wait struct {
	// Never means that no wait helps: the limit never holds as much.
	Never bool `json:"never,omitempty"`
	// MS is the wait in milliseconds, and Until when it ends; neither if it is Never.
	MS    int64      `json:"ms,omitempty"`
	Until *time.Time `json:"until,omitempty"`
	// For is the wait.
	For time.Duration `json:"-"`
}

// Link is an entity of the chain, with its bucket of the resource.
type Link struct {
	EntityID string `json:"entity_id"`
	Plan     string `json:"plan,omitempty"`
	Bucket
	// Groups are the entity's buckets of the resource's groups.
	Groups []Group `json:"groups,omitempty"`
}

// Group is an entity's bucket of a group of the resource.
type Group struct {
	Name string `json:"group"`
	Bucket
}

// Bucket is what limits an entity on a resource or on a group.
type Bucket struct {
	Level     levels.Level `json:"level,omitempty"`
	Blocked   levels.Level `json:"blocked,omitempty"`
	Unlimited bool         `json:"unlimited,omitempty"`
	// Limits are those in force, with what is left; none where nothing was read because
	// the call is blocked.
	Limits []Limit `json:"limits"`
	// Raised are those that are raised until an instant.
	Raised []dynalimit.RaisedLimit `json:"raised,omitempty"`
	// Levels are the levels that could say something here, the most specific first; of a group
	// those made for it alone.
	Levels []Level `json:"levels"`
}

// PlanSays reports whether a level of the entity's plan says anything here.
func (l Link) PlanSays() bool {
	says := func(one Level) bool { return one.Scope.Plan != "" && one.Config.Version != 0 }
	return slices.ContainsFunc(l.Levels, says) || slices.ContainsFunc(l.Groups, func(g Group) bool { return slices.ContainsFunc(g.Levels, says) })
}

// Says reports whether any level says which limits apply, or that none do.
func (b Bucket) Says() bool { return b.Level != "" || b.Blocked != "" }

// Limit is a limit in force.
type Limit struct {
	Limit     dynalimit.Limit `json:"limit"`
	Level     levels.Level    `json:"level,omitempty"`
	Asked     int64           `json:"asked,omitempty"`
	Remaining int64           `json:"remaining"`
	Denied    bool            `json:"denied,omitempty"`
	// Shadowed means that it would be denied if the limit were not in shadow.
	Shadowed bool  `json:"shadowed,omitempty"`
	Wait     *Wait `json:"wait,omitempty"`
	// FullMS is the time until it is full, in milliseconds.
	FullMS int64 `json:"full_ms,omitempty"`
	// WindowEnds is when the window ends that a quota is in; nil of a bucket.
	WindowEnds *time.Time `json:"window_ends,omitempty"`
}

// Level is a level of the configuration with what it says.
type Level struct {
	Level  levels.Level      `json:"level"`
	Scope  admin.Scope       `json:"scope"`
	Config admin.LimitConfig `json:"config,omitzero"`
	// InForce means that its limits, or that it is unlimited, decide.
	InForce bool `json:"in_force,omitempty"`
	// HiddenBy is the level that hides its limits.
	HiddenBy levels.Level `json:"hidden_by,omitempty"`
}

// AsksMoney reports whether money is asked for.
func (d *Decision) AsksMoney() bool {
	for i := range d.Chain {
		for _, b := range d.Chain[i].buckets(d.Resource) {
			if slices.ContainsFunc(b.Limits, func(l Limit) bool { return l.Asked > 0 && l.Limit.Unit != "" }) {
				return true
			}
		}
	}
	return false
}

// mostLinks bounds the chain: a service charges no more.
const mostLinks = 8

// Read asks the table what an acquire would be told at now. It fails as Check and
// ResolveLimits do.
func Read(ctx context.Context, repo *dynalimit.Repository, entity, resource string, asked dynalimit.Amounts, now time.Time) (*Decision, error) {
	d := &Decision{EntityID: entity, Resource: resource, At: now, Asked: asked}
	own := false                                                                                           // only levels of its own, or of its plan, count of the next entity
	for id, seen := entity, []string{}; id != "" && len(seen) < mostLinks && !slices.Contains(seen, id); { // Check says what is wrong with one that returns to itself
		resolved, err := repo.ResolveLimits(ctx, id, resource)
		if err != nil {
			return nil, err
		}
		if err := d.add(ctx, repo, resolved, own); err != nil {
			return nil, err
		}
		if seen, id = append(seen, id), resolved.ParentID; resolved.Detached {
			break
		}
		own = !resolved.Cascade
	}
	if !d.configured() {
		d.Outcome = Unconfigured
		return d, nil
	}
	return d, d.check(ctx, repo)
}

// configured reports whether each entity of the chain has a level that says something, up to
// one that is blocked.
func (d *Decision) configured() bool {
	for _, link := range d.Chain {
		says := link.Says()
		for _, b := range link.buckets(d.Resource) {
			if b.Blocked != "" {
				return true
			}
			says = says || b.Says()
		}
		if !says {
			return false
		}
	}
	return true
}

// buckets are those of an entity, by their resource or group.
func (l *Link) buckets(resource string) map[string]*Bucket {
	all := map[string]*Bucket{resource: &l.Bucket}
	for i := range l.Groups {
		all[l.Groups[i].Name] = &l.Groups[i].Bucket
	}
	return all
}

// add adds an entity to the chain; by levels of its own and of its plan alone, if own, and then
// only if they say anything.
func (d *Decision) add(ctx context.Context, repo *dynalimit.Repository, r dynalimit.ResolvedLimits, own bool) error {
	bucket, err := d.bucket(ctx, repo, r, own, LevelsOf(r.EntityID, r.Plan, r.Resource))
	if err != nil {
		return err
	}
	link := Link{EntityID: r.EntityID, Plan: r.Plan, Bucket: bucket}
	says := bucket.Says()
	for _, group := range r.Groups {
		of, err := d.bucket(ctx, repo, group, own, slices.DeleteFunc(LevelsOf(group.EntityID, group.Plan, group.Resource), func(l Level) bool { return l.Scope.Resource == "" }))
		if err != nil {
			return err
		}
		link.Groups = append(link.Groups, Group{group.Resource, of})
		says = says || of.Says()
	}
	if says || !own {
		d.Chain = append(d.Chain, link)
	}
	return nil
}

// bucket is a bucket of the chain with levels that could say something, and its policy if no
// bucket before it has one.
func (d *Decision) bucket(ctx context.Context, repo *dynalimit.Repository, r dynalimit.ResolvedLimits, own bool, of []Level) (Bucket, error) {
	if len(d.Chain) > 0 && !r.Blocked.IsOwn() { // decided for the entity that calls
		r.Blocked = ""
	}
	if own {
		of = slices.DeleteFunc(of, func(l Level) bool { return !l.Level.IsOwn() })
		if !r.Level.IsOwn() {
			r.Level, r.Unlimited = "", false
		}
	}
	if d.PolicyLevel == "" && r.PolicyLevel != "" {
		d.PolicyLevel, d.PolicyOf, d.OnUnavailable = r.PolicyLevel, r.EntityID, r.OnUnavailable
	}
	return Bucket{Level: r.Level, Blocked: r.Blocked, Unlimited: r.Unlimited, Limits: []Limit{}, Raised: r.Raised, Levels: of}, readLevels(ctx, repo, r, of)
}

// check asks for the buckets.
func (d *Decision) check(ctx context.Context, repo *dynalimit.Repository) error {
	limiter, err := dynalimit.New(repo, nil)
	if err != nil {
		return err
	}
	report, err := limiter.Check(ctx, d.EntityID, d.Resource, d.Asked)
	if err == nil {
		d.judge(report)
	}
	return cmp.Or(err, limiter.Close(context.WithoutCancel(ctx)))
}

// judge takes over what a report says.
func (d *Decision) judge(r *dynalimit.Report) {
	switch {
	case r.Blocked != nil:
		d.Outcome = Blocked
	case r.Unlimited:
		d.Outcome = Unlimited
	case r.Allowed:
		d.Outcome = Allowed
	default:
		d.Outcome, d.Wait = Denied, d.wait(r.RetryAfter)
	}
	d.OnUnavailable = cmp.Or(d.OnUnavailable, r.OnUnavailable)
	for _, s := range r.Statuses {
		l := Limit{Limit: s.Limit, Level: s.Level, Asked: s.Requested, Remaining: s.Remaining, Denied: s.Exceeded, Shadowed: s.Shadowed, FullMS: s.Reset.Milliseconds()}
		if s.Exceeded || s.Shadowed {
			l.Wait = d.wait(s.RetryAfter)
		}
		if end, quota := notation.WindowAfter(s.Limit, d.At, 1); quota {
			l.WindowEnds = &end
		}
		for i := range d.Chain {
			if b := d.Chain[i].buckets(d.Resource)[s.Resource]; b != nil && d.Chain[i].EntityID == s.EntityID {
				b.Limits = append(b.Limits, l)
			}
		}
	}
}

func (d *Decision) wait(w time.Duration) *Wait {
	if w == dynalimit.Never {
		return &Wait{Never: true, For: w}
	}
	until := d.At.Add(w)
	return &Wait{MS: w.Milliseconds(), Until: &until, For: w}
}

// LevelsOf are the levels that could say something about an entity on a plan, "" for none,
// and a resource, the most specific first.
func LevelsOf(entity, plan, resource string) []Level {
	all := []Level{
		{Level: levels.Entity, Scope: admin.Scope{Entity: entity, Resource: resource}},
		{Level: levels.EntityDefault, Scope: admin.Scope{Entity: entity}},
	}
	if plan != "" {
		all = append(all,
			Level{Level: levels.Plan, Scope: admin.Scope{Plan: plan, Resource: resource}},
			Level{Level: levels.PlanDefault, Scope: admin.Scope{Plan: plan}})
	}
	return append(all,
		Level{Level: levels.Resource, Scope: admin.Scope{Everyone: true, Resource: resource}},
		Level{Level: levels.System, Scope: admin.Scope{Everyone: true}})
}

// readLevels reads what levels say, and finds which of them is in force.
func readLevels(ctx context.Context, repo *dynalimit.Repository, r dynalimit.ResolvedLimits, all []Level) error {
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
		l.InForce = l.Level == r.Level || slices.Contains(r.From, l.Level)
		if !l.InForce && (len(l.Config.Limits) > 0 || l.Config.Unlimited) {
			l.HiddenBy = r.Level
		}
	}
	return nil
}
