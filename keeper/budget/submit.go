package budget

import (
	"context"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/prices"
)

func (c *charges) submit(ctx context.Context, org, app string, usage prices.Usage) (Receipt, error) {
	if err := validTarget(org, app); err != nil {
		return Receipt{}, err
	}
	if err := usage.Validate(); err != nil {
		return Receipt{}, err
	}
	ctx, cancel := c.opts.patience(ctx)
	defer cancel()
	entry := SpooledUsage{Org: org, App: app, Usage: usage, Received: c.now()}
	receipt, err := c.submitEntry(ctx, &entry)
	return c.spoolIfUnavailable(receipt, err, entry)
}

// submitEntry counts a record that may have been received at an earlier instant. It notes
// in the entry what the record costs.
func (c *charges) submitEntry(ctx context.Context, entry *SpooledUsage) (Receipt, error) {
	usage := entry.Usage
	t, err := c.tenants.get(ctx, entry.Org, entry.App)
	if err != nil {
		if t != nil { // as it was known last
			_, _ = c.prepare(t, entry)
		}
		return Receipt{}, err
	}
	o, refusal := c.prepare(t, entry)
	if refusal != nil {
		return c.countedBefore(ctx, t, usage, refusal)
	}
	if err := c.tenants.register(ctx, t); err != nil {
		return Receipt{}, err
	}
	if err := c.write(ctx, o); err != nil {
		return Receipt{}, asUnavailable("Submit", err)
	}
	return c.receipt(ctx, t, usage.Label, o.Verdict)
}

// prepare makes the operation that counts a record: checked against the configuration and
// priced, unless it was before. Its time is judged by when it was received: one that waited
// in the spool is as good as it was then.
func (c *charges) prepare(t *tenant, entry *SpooledUsage) (*ledger.Operation, error) {
	u, received := entry.Usage, entry.Received
	if !entry.priced() && !slices.Contains(t.labels, u.Label) {
		return nil, invalidLabel(u.Label)
	}
	at := received
	if !u.Time.IsZero() {
		at = u.Time
	}
	if at.Before(received.Add(-acceptPast)) || at.After(received.Add(acceptFuture)) {
		return nil, invalid("timestamp", "%s is not within 24 h ago to 300 s ahead", at.UTC().Format(time.RFC3339))
	}
	if at.After(received) {
		at = received // a clock ahead of ours does not spend tomorrow's quota
	}
	cost, err := entry.cost(t, at, c.now())
	if err != nil {
		return nil, err
	}
	day, now := t.calendar.Day(at), c.now()
	return t.account(u.Label, day).Submission(ledger.Record{
		Key: ledger.DedupKey(t.org, t.app, u.RequestID), Hash: usageHash(u), Cost: cost, Tokens: countsOf(u.Tokens), PriceVersion: entry.PriceVersion,
		Expires: now.Add(dedupFor).Unix(), At: at.Unix(),
	}, u.Tags, t.calendar.Reopens(day, now)), nil
}

// account is where the tenant's calls of a label are counted on a day.
func (t *tenant) account(label, day string) ledger.Account {
	return ledger.Account{Org: t.org, Scope: t.scope(), Label: label, Day: day, Shards: t.config.Shards, Keep: t.keepDays}
}

// countedBefore answers a record that would be refused now. If it was counted before, it
// is a duplicate all the same.
func (c *charges) countedBefore(ctx context.Context, t *tenant, u prices.Usage, refusal error) (Receipt, error) {
	stored, counted, err := c.ledger.Recorded(ctx, ledger.DedupKey(t.org, t.app, u.RequestID))
	if err != nil {
		return Receipt{}, failure("Submit", err)
	}
	if !counted {
		return Receipt{}, refusal
	}
	return c.receipt(ctx, t, stored.Label, ledger.Verdict{Duplicate: true, Conflict: stored.Hash != usageHash(u), Stored: stored})
}

// receipt reports a counted record. The record stays counted even if the look at the
// app's spend fails.
func (c *charges) receipt(ctx context.Context, t *tenant, label string, v ledger.Verdict) (Receipt, error) {
	if v.Conflict {
		return Receipt{}, conflictError(v.Stored)
	}
	r := Receipt{
		CostMicros: v.Stored.Cost.Micros(), Duplicate: v.Duplicate, Day: v.Stored.Day,
		Shard: v.Stored.Shard, PriceVersion: v.Stored.PriceVersion,
	}
	out, err := c.standing.look(ctx, t, false)
	if err != nil {
		c.opts.Logger.WarnContext(ctx, "budget: spend after a record", "error", err)
	}
	if out == nil {
		return r, nil
	}
	r.ResetAt = out.resetAt
	if l, ok := out.label(label); ok {
		s := l.export(out.tight)
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
