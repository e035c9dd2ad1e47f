package budget

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// A purge scans the usage table twice: once at once, and once more when no process counts
// for the tenant any more. How far it is is in the note of the deletion, so that whoever
// calls next goes on there.
const (
	firstPass int64 = iota
	waitsForSecond
	secondPass
)

// purgedTogether is how many items go in one transaction.
const purgedTogether = 50

// prepared notes that apps and credentials have ended, for a purge that takes longer.
func (d *deletion) prepared(ctx context.Context) error {
	if d.work.none() || !d.work.Purge || d.work.Prepared || d.how.Revoke == nil {
		return nil
	}
	next := d.work
	next.Prepared = true
	return d.move(ctx, next)
}

// purge removes what was counted, as far as it is there.
func (d *deletion) purge(ctx context.Context) error {
	if d.work.none() || !d.work.Purge {
		return nil
	}
	over := d.work.since().Add(d.admin.purgeAfter)
	for left := d.how.Pages; ; {
		if err := d.beginSecond(ctx, over); err != nil {
			return err
		}
		if d.work.Pass == waitsForSecond {
			d.report.Again = over
			return nil
		}
		pass := d.work.Pass
		err := d.purgePages(ctx, &left)
		switch {
		case errors.Is(err, errPages):
			d.report.Again = d.now()
			return nil
		case err != nil:
			return err
		case d.work.Pass != pass:
			continue
		case pass == secondPass:
			return nil
		}
		if err := d.move(ctx, d.work.at(waitsForSecond, store.Key{})); err != nil {
			return err
		}
	}
}

// beginSecond begins the second pass if it is time.
func (d *deletion) beginSecond(ctx context.Context, over time.Time) error {
	if d.work.Pass == secondPass || d.now().Before(over) {
		return nil
	}
	return d.move(ctx, d.work.at(secondPass, store.Key{}))
}

// errPages says that there are further pages than may be read.
var errPages = errors.New("budget: there are further pages")

// purgePages removes the tenant's items from where the pass is, to its end or until another
// process has begun another pass: its place in that says nothing of this scan.
func (d *deletion) purgePages(ctx context.Context, left *int) error {
	pass := d.work.Pass
	for page, err := range d.store.Keys(ctx, d.store.Usage, d.org, d.work.after()) {
		if err != nil {
			return err
		}
		if err := d.purgePage(ctx, page); err != nil {
			return err
		}
		if page.Last == (store.Key{}) {
			return nil
		}
		if err := d.move(ctx, d.work.at(pass, page.Last)); err != nil || d.work.Pass != pass {
			return err
		}
		if *left--; *left == 0 {
			return errPages
		}
	}
	return nil
}

// purgePage removes the tenant's items of a page.
func (d *deletion) purgePage(ctx context.Context, page store.Page) error {
	d.report.Scanned += page.Scanned
	mine := slices.DeleteFunc(page.Keys, func(key store.Key) bool { return !ledger.Belongs(key, d.org, d.app) })
	for some := range slices.Chunk(mine, purgedTogether) {
		if err := d.remove(ctx, some); err != nil {
			return err
		}
		d.report.Purged += len(some)
	}
	if d.how.Progress != nil {
		d.how.Progress(d.report)
	}
	return nil
}

// remove removes items while the deletion is not complete: in one transaction with a look at
// its note, or a slow process would remove those of a tenant that was put again.
func (d *deletion) remove(ctx context.Context, keys []store.Key) error {
	writes := []types.TransactWriteItem{d.noted()}
	for _, key := range keys {
		writes = append(writes, types.TransactWriteItem{Delete: &types.Delete{TableName: &d.store.Usage, Key: key.Attributes()}})
	}
	err := d.store.Transact(ctx, store.NewID(), writes)
	if store.Diagnose(err) == ddb.Refused {
		return errOvertaken
	}
	return err
}

// move notes how far the deletion is. Where another process is further or elsewhere, it goes
// on from there.
func (d *deletion) move(ctx context.Context, next deletionWork) error {
	err := d.admin.moveWork(ctx, d.org, d.app, d.work, next)
	if store.Diagnose(err) != ddb.Refused {
		d.work = next
		return err
	}
	now, err := d.admin.readWork(ctx, d.org, d.app)
	if err == nil && !now.same(d.work) {
		err = errOvertaken
	}
	d.work = now
	return err
}
