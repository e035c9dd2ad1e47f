package budget

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// FinishReport says what became of deletions that were begun.
type FinishReport struct {
	Open      int // that are not complete yet
	Completed int // by this call, or by another meanwhile
}

// FinishDeletions goes on with every deletion of an organisation or app that was begun and is
// not complete, as DeleteOrg and DeleteApp do when they are called again. It scans the
// control table for them, so call it where SweepReport.Deletions says that there are some.
// Many processes may call it at the same time. revoke is required, for a deletion may have
// stopped before credentials ended.
//
// Errors: *ValidationError, and of those that could not go on, joined.
func (k *Keeper) FinishDeletions(ctx context.Context, revoke Revoke) (report FinishReport, err error) {
	by, err := k.author(ctx)
	if err != nil {
		return report, err
	}
	if revoke == nil {
		return report, invalid("revoke", "is nil; give what ends credentials, (*credentials.Store).Delete")
	}
	var open []*deletion
	var errs []error
	for d, err := range k.charges.openDeletions(ctx) {
		switch {
		case d == nil:
			return report, adminError("FinishDeletions", err)
		case err != nil: // the others go on
			report.Open++
			errs = append(errs, adminError("FinishDeletions", err))
		default:
			d.by, d.revoke = by, revoke
			open = append(open, d)
		}
	}
	for _, d := range open {
		if err := d.run(ctx, "FinishDeletions", d.begun); err != nil {
			report.Open++
			errs = append(errs, err)
		} else {
			report.Completed++
		}
	}
	return report, errors.Join(errs...)
}

// begun takes the place of the mark, and does what follows that of an organisation.
func (d *deletion) begun(ctx context.Context) error {
	if err := d.still(ctx); err != nil || d.app != "" {
		return err
	}
	return d.deleteApps(ctx)
}

// openDeletions are those of which there is a note; with an error if that cannot be read, or
// nil if the table cannot.
func (c *charges) openDeletions(ctx context.Context) iter.Seq2[*deletion, error] {
	return func(yield func(*deletion, error) bool) {
		for item, err := range c.admin.scan(ctx, orgPrefix, notes, true) {
			if err != nil {
				yield(nil, err)
				return
			}
			key := store.KeyOf(item)
			d := &deletion{charges: c, org: key.PK[len(orgPrefix):], app: strings.TrimPrefix(key.SK[len(deletionPrefix):], appPrefix)}
			d.work, err = decodeWork(item)
			if !yield(d, err) {
				return
			}
		}
	}
}
