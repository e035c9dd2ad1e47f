package budget

import (
	"context"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/prices"
)

// submitRecord counts a record once and waits for the write, at most Options.Timeout. A bad id or record is a
// *fault.ValidationError. It spools a record that the store did not accept, if the policy says so; the receipt
// is then marked Spooled.
func (c *charges) submitRecord(ctx context.Context, org, app string, usage prices.Usage) (Receipt, error) {
	if err := validTarget(org, app); err != nil {
		return Receipt{}, err
	}
	if err := usage.Validate(); err != nil {
		return Receipt{}, err
	}
	ctx, cancel := c.opts.withTimeout(ctx)
	defer cancel()
	entry := SpooledUsage{Org: org, App: app, Usage: usage, Received: c.now()}
	receipt, err := c.submitEntry(ctx, &entry)
	return c.spoolIfUnavailable(receipt, err, entry)
}

// submitEntry registers the app, counts a record, which may have waited in the spool, and returns its receipt
// after the write. It stores the record's cost in entry if a configuration is known, even if the store does not
// answer. A record that was counted before gets its first receipt, marked Duplicate, or ErrConflict for another
// payload.
func (c *charges) submitEntry(ctx context.Context, entry *SpooledUsage) (Receipt, error) {
	usage := entry.Usage
	t, err := c.tenants.get(ctx, entry.Org, entry.App)
	if err != nil {
		if t != nil { // with the last known configuration
			_, _ = c.prepareRecord(t, entry)
		}
		return Receipt{}, err
	}
	o, refusal := c.prepareRecord(t, entry)
	if refusal != nil {
		return c.countedBefore(ctx, t, usage, refusal)
	}
	if err := c.tenants.registerApp(ctx, t); err != nil {
		return Receipt{}, err
	}
	if err := c.writeOperation(ctx, o); err != nil {
		return Receipt{}, asCallFailure("Submit", err)
	}
	return c.makeReceipt(ctx, t, usage.Label, o.Verdict)
}

// prepareRecord returns the operation that counts a record, or a *fault.ValidationError; it writes nothing. It
// prices the record and stores the cost in entry, unless that happened before. It checks the record's time
// against the time of receipt, so a record does not become invalid in the spool; a later time counts as that of
// receipt.
func (c *charges) prepareRecord(t *tenant, entry *SpooledUsage) (*ledger.Operation, error) {
	u, received := entry.Usage, entry.Received
	if !entry.isPriced() && !slices.Contains(t.labels, u.Label) {
		return nil, invalidLabelError(u.Label)
	}
	at := received
	if !u.Time.IsZero() {
		at = u.Time
	}
	if at.Before(received.Add(-acceptPast)) || at.After(received.Add(acceptFuture)) {
		return nil, invalid("timestamp", "%s is not within 24 h ago to 300 s ahead", at.UTC().Format(time.RFC3339))
	}
	if at.After(received) {
		at = received // a fast clock must not use tomorrow's quota
	}
	cost, err := entry.setCost(t, at, c.now())
	if err != nil {
		return nil, err
	}
	day, now := t.calendar.Day(at), c.now()
	return t.account(u.Label, day).NewSubmission(ledger.Record{
		Key: ledger.DedupKey(t.org, t.app, u.RequestID), Hash: usageHash(u), Cost: cost, Tokens: countsOf(u.Tokens), PriceVersion: entry.PriceVersion,
		Expires: now.Add(dedupFor).Unix(), At: at.Unix(),
	}, u.Tags, t.calendar.MayBeClosed(day, now)), nil
}

// account returns the account of a label on a day: the counters of the tenant's scope, with its number of
// shards and days to keep. It reads nothing.
func (t *tenant) account(label, day string) ledger.Account {
	return ledger.Account{Org: t.org, Scope: t.scope(), Label: label, Day: day, Shards: t.config.Shards, Keep: t.keepDays}
}

// countedBefore reads whether a record that would be refused now was counted before. If so, it returns the
// first receipt, marked Duplicate, or ErrConflict for another payload. Else it returns refusal.
func (c *charges) countedBefore(ctx context.Context, t *tenant, u prices.Usage, refusal error) (Receipt, error) {
	stored, counted, err := c.ledger.ReadRecord(ctx, ledger.DedupKey(t.org, t.app, u.RequestID))
	if err != nil {
		return Receipt{}, wrapFailure("Submit", err)
	}
	if !counted {
		return Receipt{}, refusal
	}
	return c.makeReceipt(ctx, t, stored.Label, ledger.Verdict{Duplicate: true, Conflict: stored.Hash != usageHash(u), Stored: stored})
}

// makeReceipt returns the receipt of a counted record, in micro-dollars, with the spend of its label and the
// recommended label if those can be read. It logs a failed read. It returns ErrConflict if v says that another
// record has the same id.
func (c *charges) makeReceipt(ctx context.Context, t *tenant, label string, v ledger.Verdict) (Receipt, error) {
	if v.Conflict {
		return Receipt{}, conflictError(v.Stored)
	}
	r := Receipt{
		CostMicros: v.Stored.Cost.Micros(), Duplicate: v.Duplicate, Day: v.Stored.Day,
		Shard: v.Stored.Shard, PriceVersion: v.Stored.PriceVersion,
	}
	out, err := c.standing.readOutlook(ctx, t, false)
	if err != nil {
		c.opts.Logger.WarnContext(ctx, "budget: spend after a record", "error", err)
	}
	if out == nil {
		return r, nil
	}
	r.ResetAt = out.resetAt
	if l, ok := out.labelState(label); ok {
		s := l.asStatus(out.tight)
		r.SpendMicros, r.Percent, r.QuotaStatus, r.Mode = s.SpendMicros, s.Percent, s.Status, ModeNormal
		if s.Status != prices.StatusNormal {
			r.Mode = ModeTight
		}
	}
	if out.index >= 0 {
		r.RecommendedLabel = out.labels[out.index].label
	}
	return r, nil
}
