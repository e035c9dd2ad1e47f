package budget

import (
	"context"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/prices"
)

// submitRecord validates a record, counts it once, and waits for the write, at most Options.Timeout. A bad id
// or record is a *fault.ValidationError. If the store does not accept it and the policy allows that, it is
// spooled and the receipt marked Spooled.
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

// submitEntry counts a record, also one from the spool, and returns its receipt after the write; it registers
// the app. It sets the cost in entry, even during an outage if a configuration is known. A record counted
// before gives its first receipt, marked Duplicate, or ErrConflict for another payload.
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

// prepareRecord returns the operation that counts a record, and sets its cost in entry unless that is set; it
// writes nothing. An unknown label, a time out of range at receipt, or a missing price is a
// *fault.ValidationError. A time after the receipt counts as the receipt.
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

// account returns the account of a label on a day: the counters in the tenant's scope, with their shards and
// the days to keep. It reads and writes nothing.
func (t *tenant) account(label, day string) ledger.Account {
	return ledger.Account{Org: t.org, Scope: t.scope(), Label: label, Day: day, Shards: t.config.Shards, Keep: t.keepDays}
}

// countedBefore reads whether the record u, which would be refused now, was counted before. If so, it returns
// the receipt marked Duplicate, or ErrConflict for another payload. Else it returns refusal.
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

// makeReceipt returns the receipt of a counted record by v, in micro-dollars, or ErrConflict if v is a
// conflict. It adds the label's spend and the recommended label if they can be read, and logs a failed read.
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
