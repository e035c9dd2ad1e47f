package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// firstEvents is earlier than any event. A search day by day stops there.
var firstEvents = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// auditCmd shows audit events.
type auditCmd struct {
	Target      string `help:"Only changes of this entity: of its record, limits and buckets." placeholder:"ID" xor:"target"`
	Resource    string `help:"Only changes of the limits of this resource." placeholder:"NAME" xor:"target"`
	Plan        string `help:"Only changes of the limits of this plan." placeholder:"NAME" xor:"target"`
	System      bool   `help:"Only changes of the limits of everybody." xor:"target"`
	OfNamespace string `help:"Only changes of this namespace as a whole." placeholder:"NAME" xor:"target"`
	By          string `help:"Only changes that this principal made." placeholder:"NAME"`
	From        string `help:"Not before: a time, a day, or a period such as 2h or '3d ago'. Default: the oldest kept." placeholder:"TIME"`
	To          string `help:"Not after: a time, a day, or a period. Default: now." placeholder:"TIME"`
	Oldest      bool   `help:"The oldest first. Default: the newest first."`
	Limit       int    `help:"At most so many; 0 for all." default:"50" placeholder:"N"`
}

// Validate refuses an invalid --from or --to, a negative --limit, and an invalid id of an entity as --target. A --target that begins with $ is a target as events store it, and passes.
func (c auditCmd) Validate() error {
	if c.Target != "" && !strings.HasPrefix(c.Target, "$") { // a target in the form of events
		if err := (admin.Entity{ID: c.Target}).Validate(); err != nil {
			return fmt.Errorf("--target: %w", err)
		}
	}
	_, err := c.auditQuery(time.Unix(0, 0))
	return cmp.Or(checkRowLimit(c.Limit), err)
}

// auditQuery returns the query of the flags, or an error that names a wrong --from or --to. now resolves
// relative times. It raises a --from before firstEvents to firstEvents, unless --to is before it too; a missing
// flag leaves its bound zero.
func (c auditCmd) auditQuery(now time.Time) (audit.Query, error) {
	q := audit.Query{Principal: c.By, Target: c.auditTarget()}
	var err error
	if q.From, err = parseMomentFlag("--from", c.From, now, false); err != nil {
		return q, err
	}
	if q.To, err = parseMomentFlag("--to", c.To, now, true); err != nil {
		return q, err
	}
	if c.From != "" && q.From.Before(firstEvents) && (q.To.IsZero() || q.To.After(firstEvents)) {
		q.From = firstEvents
	}
	return q, nil
}

// auditTarget returns the target of the flags as events store it, such as "$SYSTEM" for --system or "$PLAN:pro"
// for --plan pro. Otherwise it returns the text of --target, which may be "" for all targets.
func (c auditCmd) auditTarget() string {
	switch {
	case c.System:
		return audit.System
	case c.Resource != "":
		return audit.Resource(c.Resource)
	case c.Plan != "":
		return audit.Plan(c.Plan)
	case c.OfNamespace != "":
		return audit.Namespace(c.OfNamespace)
	}
	return c.Target
}

// parseMomentFlag parses the text of a flag: a time, a day, or a period before now. It returns the zero time
// for an empty text, and an error that names the flag for an invalid one. If last is true, a day means its end.
func parseMomentFlag(flag, text string, now time.Time, last bool) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := notation.ParseMoment(text, now, last)
	if err != nil {
		return at, fmt.Errorf("%s %w", flag, err)
	}
	return at, nil
}

// Run prints the audit events that match the flags, at most --limit, the newest first unless --oldest is given.
// Without a target and --from, the search for the newest goes back 90 days. It notes if --limit left some out.
func (c auditCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	if c.OfNamespace != "" {
		g = g.withoutNamespace()
	}
	q, err := c.auditQuery(now(ctx))
	if err != nil {
		return badInput("%w", err)
	}
	return g.readTable(ctx, out, func(repo *dynalimit.Repository) error {
		wanted := c.Limit
		if wanted > 0 {
			wanted++ // one more, to see whether there are more
		}
		all := admin.New(repo).AuditEvents(ctx, q)
		if !c.Oldest {
			all = newestFirst(ctx, repo, q, wanted, now(ctx))
		}
		some, more := atMost(all, c.Limit)
		if err := c.showEvents(out, some); err != nil {
			return err
		}
		if *more {
			out.Notef("dynalimit: there are more; give a larger --limit, or 0 for all")
		}
		return nil
	})
}

// showEvents prints the events one by one, either all as one JSON array or as text. The text has a sentence if
// no event matches. It stops at the first error of reading or writing, and returns it.
func (c auditCmd) showEvents(out *term.Output, all auditEvents) error {
	if out.JSON {
		return term.Stream(out, all, term.List[audit.Event]{})
	}
	none := true
	for e, err := range all {
		if err != nil {
			return err
		}
		none = false
		printEvent(out, e)
		if out.Err() != nil {
			return out.Err()
		}
	}
	if none {
		fmt.Fprintln(out, "No stored change matches.")
	}
	return nil
}
