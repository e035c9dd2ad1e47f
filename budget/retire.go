package budget

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/budget/internal/calendar"
	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/audit"
	"github.com/dynalimit/dynalimit/internal/problem"
)

// keptDays is how many days before today are never retired: more than two months, so that
// those that bills are checked against are there.
const keptDays = 70

// Exporter keeps files; archive.Folder of package aggregator/archive is one, and
// s3archive.Writer.
type Exporter interface {
	// Put stores a file whole under a name, or fails. A file that has the name already had
	// the same content.
	Put(ctx context.Context, name string, data []byte) error
}

// Retirement says which days of an organisation are kept no more.
type Retirement struct {
	// Before is the first day that is kept, like 20250101: at least 70 days before today.
	Before string
	// Export keeps what goes, before it may go: lines of JSON with the items as they are
	// stored, in files budget/org=<id>/before=<day>/<hash>.jsonl. Required.
	Export Exporter
	// Keep is how long an item stays in the table after its export. Defaults to 7 days.
	Keep time.Duration
}

// RetirementReport is what became of old days.
type RetirementReport struct {
	Exported int // items, each of which is in a file and has its time to live
	Files    int // written
	Changed  int // items that were written to meanwhile; the next call takes them
	// Complete says that nothing of those days is without its time to live.
	Complete bool
	// Again is when to call again, if it is not Complete: other processes may have charged
	// such a day by hand until then.
	Again time.Time
}

// Retire ends the keeping of an organisation's old days: counters, closed totals and
// adjustments are exported, and get a time to live. From the first call on such days are
// refused by Totals, TagTotals, History and Adjust with a *ValidationError; the second, at
// RetirementReport.Again, exports. It may be called again at any time: what was exported and
// has its time to live is left alone, and what was interrupted is exported again, so that an
// item may be in two files, which say the same.
//
// It reads the whole usage table. The first call has an AuditEvent. Days are kept for ever
// unless it is called; an adjustment that is gone is no longer known by its ID.
//
// Errors: *ValidationError, ErrNotFound, ErrConflict, *UnavailableError, the Exporter's.
func (k *Keeper) Retire(ctx context.Context, org string, r Retirement) (RetirementReport, error) {
	by, err := k.author(ctx)
	if err != nil {
		return RetirementReport{}, err
	}
	if err := validUUID("org_id", org); err != nil {
		return RetirementReport{}, err
	}
	report, err := k.charges.retire(ctx, by, org, r)
	return report, adminError("Retire", err)
}

func (c *charges) retire(ctx context.Context, by, org string, r Retirement) (RetirementReport, error) {
	if problem.IsNil(r.Export) {
		return RetirementReport{}, invalid("export", "is nil; give a writer that keeps what goes")
	}
	if r.Keep < 0 {
		return RetirementReport{}, invalid("keep", "is below zero; give a duration, or 0 for 7 days")
	}
	if _, err := validDay("before", r.Before); err != nil {
		return RetirementReport{}, err
	}
	r.Keep = cmp.Or(r.Keep, 7*24*time.Hour)
	var since time.Time
	err := c.admin.commit(ctx, func() (ch *change, err error) {
		ch, since, err = c.admin.decideRetirement(ctx, by, org, r.Before)
		return ch, err
	})
	c.tenants.evict(org)
	if err != nil {
		return RetirementReport{}, err
	}
	if again := since.Add(c.admin.purgeAfter); c.now().Before(again) {
		return RetirementReport{Again: again}, nil
	}
	return c.exportDays(ctx, org, r)
}

// decideRetirement is the change that says from which day on days are kept, and since when
// that is so; nil if it is.
func (adm *administration) decideRetirement(ctx context.Context, by, org, before string) (*change, time.Time, error) {
	now := adm.now()
	seen, err := adm.loadOrg(ctx, org)
	if err != nil {
		return nil, time.Time{}, err
	}
	if latest := calendar.AddDays(calendar.In(seen.Zone).Day(now), -keptDays); before > latest {
		return nil, time.Time{}, invalid("before", "%s is less than %d days ago; give %s or an earlier day", before, keptDays, latest)
	}
	if before <= seen.Retired {
		return nil, time.UnixMilli(seen.RetiredAt).UTC(), nil
	}
	e := AuditEvent{Principal: by, Action: actionDaysRetired, Target: org}
	event, err := adm.trail.event(now, e, audit.Fields{"retired_before": present(seen.Retired)}, audit.Fields{"retired_before": before})
	if err != nil {
		return nil, time.Time{}, err
	}
	names := map[string]string{"#r": "retired_before", "#a": "retired_at_epoch_ms", "#v": "cfg_version"}
	values := store.Item{":r": store.String(before), ":a": store.Int(now.UnixMilli()), ":v": store.Int(seen.Version)}
	condition := "#v = :v AND attribute_not_exists(#r)"
	if seen.Retired != "" {
		condition = "#v = :v AND #r = :seen"
		values[":seen"] = store.String(seen.Retired)
	}
	return &change{[]types.TransactWriteItem{{Update: &types.Update{
		TableName: &adm.store.Control, Key: orgKey(org).Attributes(), UpdateExpression: aws.String("SET #r = :r, #a = :a"),
		ConditionExpression: &condition, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	}}}, event}, now.UTC(), nil
}

// exportDays exports what goes, page by page, and lets it go.
func (c *charges) exportDays(ctx context.Context, org string, r Retirement) (report RetirementReport, err error) {
	expires := c.now().Add(r.Keep).Unix()
	for page, err := range c.store.Lasting(ctx, c.store.Usage, org) {
		if err != nil {
			return report, err
		}
		old := slices.DeleteFunc(page, func(item store.Item) bool { return !ledger.IsBefore(item, org, r.Before) })
		if len(old) == 0 {
			continue
		}
		if err := exportItems(ctx, org, r, old); err != nil {
			return report, err
		}
		report.Files++
		var gone atomic.Int64
		err = store.Each(ctx, slices.Values(old), func(ctx context.Context, item store.Item) error {
			unchanged, err := c.ledger.Expire(ctx, item, expires)
			if unchanged {
				gone.Add(1)
			}
			return err
		})
		report.Exported += int(gone.Load())
		if err != nil {
			return report, err
		}
		report.Changed += len(old) - int(gone.Load())
	}
	report.Complete = report.Changed == 0
	return report, nil
}

// exportItems writes one file, whose name is that of its content.
func exportItems(ctx context.Context, org string, r Retirement, items []store.Item) error {
	lines := make([][]byte, len(items))
	for i, item := range items {
		var err error
		if lines[i], err = ledger.Line(item); err != nil {
			return err
		}
	}
	slices.SortFunc(lines, bytes.Compare)
	data := bytes.Join(lines, nil)
	sum := sha256.Sum256(data)
	return r.Export.Put(ctx, "budget/org="+org+"/before="+r.Before+"/"+hex.EncodeToString(sum[:16])+".jsonl", data)
}

// notRetired refuses a day that is kept no more.
func (t *tenant) notRetired(field, day string) error {
	if day < t.retired {
		return invalid(field, "%s is before %s: what was counted on such days was exported, and is kept no more", day, t.retired)
	}
	return nil
}
