package admin

import (
	"context"
	"iter"
	"time"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/internal/admin"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// AuditQuery says which events are wanted. The zero value wants all that are kept.
type AuditQuery struct {
	// Target is what was changed: an entity's id, AuditSystem, AuditResource("gpt-4"),
	// AuditPlan("pro"). Defaults to everything: then an index is read day by day.
	Target string
	// Principal is who changed it. Defaults to everybody.
	Principal string
	// From and To bound the times of the events, both included, to the millisecond. From
	// defaults to the oldest event that RepositoryOptions.AuditRetention keeps, 90 days
	// ago if that is for ever, and To to now. With a Target, From defaults to the oldest.
	From, To time.Time
}

// AuditSystem is the Target of changes of the system's configuration.
const AuditSystem = trail.System

// AuditResource is the Target of changes of a resource's limits: "$RESOURCE:gpt-4".
func AuditResource(resource string) string { return trail.ResourceTarget(resource) }

// AuditPlan is the Target of changes of a plan's limits: "$PLAN:pro".
func AuditPlan(plan string) string { return trail.PlanTarget(plan) }

// defaultRetention is how long events are kept by default, and how far back a query looks
// where they are kept for ever.
const defaultRetention = 90 * 24 * time.Hour

// AuditEvents lists administrative changes, the oldest first. Those of a Target are read
// consistently; those of all targets by an index, which may lag behind by a moment. It
// fails with a *ValidationError when To lies before From.
func (a *Admin) AuditEvents(ctx context.Context, q AuditQuery) iter.Seq2[audit.Event, error] {
	if err := a.d.repo.Usable(ctx); err != nil {
		return problem.List[audit.Event](err)
	}
	now := a.d.repo.Clock.Now()
	if q.To.IsZero() {
		q.To = now.Add(time.Minute) // events of processes whose clocks are ahead
	}
	if q.From.IsZero() && q.Target == "" {
		kept := a.d.repo.Items.Events.Retention
		if kept == 0 {
			kept = defaultRetention
		}
		q.From = now.Add(-kept)
	}
	if q.To.Before(q.From) {
		return problem.List[audit.Event](invalid("query.To", "%v lies before From, %v; exchange them", q.To, q.From))
	}
	return a.d.repo.Items.Trail.Find(ctx, admin.Search{Target: q.Target, Principal: q.Principal, From: q.From, To: q.To})
}
