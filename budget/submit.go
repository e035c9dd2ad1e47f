package budget

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/ledger"
)

const (
	acceptPast   = 24 * time.Hour
	acceptFuture = 300 * time.Second
	dedupFor     = 49 * time.Hour
	maxTags      = 4
)

// Usage is what one call used.
type Usage struct {
	RequestID string            `json:"request_id"`         // canonical lower-case UUID; a record is counted once under it
	Label     string            `json:"model_label"`        // one that the organisation uses or has used
	Model     string            `json:"model_id,omitempty"` // that was called: one that the label has, or had in the last two days. Defaults to the label's
	Tokens    Tokens            `json:"tokens"`             // what the provider reports
	Status    string            `json:"status,omitempty"`   // at most 32 bytes. Defaults to OK
	Time      time.Time         `json:"timestamp"`          // of the call, 24 h ago to 300 s ahead; the zero time is now
	Tags      map[string]string `json:"tags,omitempty"`     // at most 4, of few distinct values: cost is counted per value and day
}

// Receipt is how a record was counted and where the app stands after it.
type Receipt struct {
	CostMicros       int64     `json:"cost_usd_micros"`             // of this record in µ$, rounded half up
	Duplicate        bool      `json:"-"`                           // counted before; the fields up to PriceVersion are that record's
	Day              string    `json:"day"`                         // the day it is counted on, like 20260123
	Shard            int       `json:"shard"`                       // which of the day's counters has it, see Org.Shards
	PriceVersion     string    `json:"price_version"`               // where its price is from, and what was assumed
	SpendMicros      int64     `json:"spend_usd_micros"`            // of the label today in µ$, at most Options.Staleness old
	Percent          float64   `json:"quota_pct"`                   // of the label's quota, one decimal; 0 when the quota is 0
	Mode             Mode      `json:"mode"`                        // of the label
	QuotaStatus      Status    `json:"quota_status"`                // of the label
	RecommendedLabel string    `json:"recommended_label,omitempty"` // to use next; empty when none has room
	ResetAt          time.Time `json:"reset_at"`                    // when the next day begins
	Spooled          bool      `json:"-"`                           // the store did not answer: kept in the spool, not counted yet
}

// Validate checks all of a record that does not depend on a configuration. It
// returns a *ValidationError; Submit checks the same, and a
// caller may do so before the call that the record is of.
func (u Usage) Validate() error {
	if err := validUUID("request_id", u.RequestID); err != nil {
		return err
	}
	if err := validLabel(u.Label); err != nil {
		return err
	}
	if err := u.Tokens.validate(); err != nil {
		return err
	}
	if err := validText("status", u.Status, maxStatus); err != nil {
		return err
	}
	if err := validText("model_id", u.Model, maxName); err != nil {
		return err
	}
	if len(u.Tags) > maxTags {
		return invalid("tags", "%d are more than %d", len(u.Tags), maxTags)
	}
	for name, value := range u.Tags {
		if !namePattern.MatchString(name) || !namePattern.MatchString(value) {
			return invalid("tags."+name, "%q: names and values are 1 to 64 of A-Z a-z 0-9 . _ -", value)
		}
	}
	return nil
}

// hash is over the decoded fields, so that the same record written differently has the
// same hash.
func (u Usage) hash() string {
	type pair struct{ K, V string }
	tags := make([]pair, 0, len(u.Tags))
	for _, name := range slices.Sorted(maps.Keys(u.Tags)) {
		tags = append(tags, pair{name, u.Tags[name]})
	}
	var nanos int64
	if !u.Time.IsZero() {
		nanos = u.Time.UnixNano()
	}
	status := u.Status
	if status == "" {
		status = "OK"
	}
	b, _ := json.Marshal([]any{u.Label, u.Model, u.Tokens, status, nanos, tags}) // cannot fail
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

func (c *charges) submit(ctx context.Context, org, app string, usage Usage) (Receipt, error) {
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
	if err := c.admin.register(ctx, t); err != nil {
		return Receipt{}, err
	}
	if c.counterOnly() {
		if err := c.writeUnkept(ctx, o); err != nil {
			return Receipt{}, failure("Submit", err)
		}
	} else if err := c.write(ctx, o); err != nil {
		return Receipt{}, asUnavailable("Submit", err)
	}
	return c.receipt(ctx, t, usage.Label, o.Verdict)
}

// asUnavailable adds the name of the operation to an error of the ledger. A caller's own
// deadline counts as the store not answering in time.
func asUnavailable(operation string, err error) error {
	var u *UnavailableError
	switch {
	case errors.As(err, &u):
		return &UnavailableError{Package: pkg, Op: operation, Err: u.Err, Unconfirmed: u.Unconfirmed, RetryAfter: u.RetryAfter}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &UnavailableError{Package: pkg, Op: operation, Err: err, Unconfirmed: true}
	}
	return err
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
	} else if c.opts.Metering == MeteringWindow {
		return nil, invalid("timestamp", "is needed in window metering")
	}
	if at.Before(received.Add(-acceptPast)) || at.After(received.Add(acceptFuture)) {
		return nil, invalid("timestamp", "%s is not within 24 h ago to 300 s ahead", at.UTC().Format(time.RFC3339))
	}
	if at.After(received) && c.opts.Metering != MeteringWindow {
		at = received // a clock ahead of ours does not spend tomorrow's quota
	}
	cost, err := entry.cost(t, at, c.now())
	if err != nil {
		return nil, err
	}
	day, now := t.calendar.Day(at), c.now()
	return t.account(u.Label, day).Submission(ledger.Record{
		Key: ledger.DedupKey(t.org, t.app, u.RequestID), Hash: u.hash(), Cost: cost, Tokens: u.Tokens.counts(), PriceVersion: entry.PriceVersion,
		Expires: now.Add(dedupFor).Unix(), At: at.Unix(),
	}, u.Tags, t.calendar.Reopens(day, now)), nil
}

// account is where the tenant's calls of a label are counted on a day.
func (t *tenant) account(label, day string) ledger.Account {
	return ledger.Account{Org: t.org, Scope: t.scope(), Label: label, Day: day, Shards: t.config.Shards, Keep: t.keepDays}
}

// countedBefore answers a record that would be refused now. If it was counted before, it
// is a duplicate all the same.
func (c *charges) countedBefore(ctx context.Context, t *tenant, u Usage, refusal error) (Receipt, error) {
	stored, counted, err := c.ledger.Recorded(ctx, ledger.DedupKey(t.org, t.app, u.RequestID))
	if err != nil {
		return Receipt{}, failure("Submit", err)
	}
	if !counted {
		return Receipt{}, refusal
	}
	return c.receipt(ctx, t, stored.Label, ledger.Verdict{Duplicate: true, Conflict: stored.Hash != u.hash(), Stored: stored})
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
		if s.Status != StatusNormal {
			r.Mode = ModeTight
		}
	}
	if out.index >= 0 {
		r.RecommendedLabel = out.labels[out.index].label
	}
	return r, nil
}
