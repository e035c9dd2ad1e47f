package admin

import (
	"cmp"
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
	"github.com/dynalimit/dynalimit/internal/table"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// desk is the common part of every change: the table, the principal,
// the event, and the limiters to inform.
type desk struct{ shared.Repository }

// checkChange returns an error, before any change, if the repository is unusable, a required principal is
// missing, or this version must not change the table. It reads the version record only if none is cached, or
// while the table is refused.
func (d *desk) checkChange(ctx context.Context) error {
	if err := cmp.Or(d.Usable(ctx), d.checkPrincipal()); err != nil {
		return err
	}
	return d.Layout.Check(ctx)
}

// checkPrincipal returns an error for an invalid principal or reason, and for a missing principal unless
// RepositoryOptions permit that.
func (d *desk) checkPrincipal() error {
	if reason := trail.CheckReason(d.Reason); reason != "" {
		return invalid("reason", "%s", reason)
	}
	if d.Author == "" && d.Anonymous {
		return nil
	}
	if d.Author == "" {
		return invalid("principal", "is not set; name the author of the change with Repository.As or RepositoryOptions.Principal, or set RepositoryOptions.AllowAnonymous")
	}
	if reason := trail.CheckPrincipal(d.Author); reason != "" {
		return invalid("principal", "%s", reason)
	}
	return nil
}

// deed is a change as it is recorded.
type deed struct {
	// action is the name of the change, for example "limits_set".
	action string
	// target is the changed thing, as events name it; resource is the resource, if any.
	target, resource string
	// before and after are the changed fields.
	before, after trail.Fields
	// was and is are its item, nil for none: the event comes after the last one that was
	// names, and is names it.
	was, is schema.Item
}

// propose returns the transaction of a change's writes and its audit event, and sends nothing. It records the
// event's id in the item c.is, in place. The stored event later proves that the transaction landed.
func (d *desk) propose(c deed, writes ...types.TransactWriteItem) (table.Proposal, error) {
	changes, err := trail.Diff(c.before, c.after)
	if err != nil {
		return table.Proposal{}, err
	}
	id := d.IDs.Above(schema.LastEvent(c.was), d.Clock.Now())
	now, _ := trail.TimeOf(id) // an id is never below the last, so a clock set back does not show
	schema.SetLastEvent(c.is, id)
	event := d.Events.Item(audit.Event{
		ID: id, Time: now, Principal: d.Author, Action: c.action, Target: c.target, Resource: c.resource, Reason: d.Reason, Changes: changes,
	})
	return table.Proposal{Writes: append(writes, d.Table.PutPart(event, schema.Statement{})), Proof: schema.KeyOf(event)}, nil
}
