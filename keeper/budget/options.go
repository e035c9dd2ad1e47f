package budget

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/trail"
	"github.com/dynalimit/dynalimit/prices"
)

// Tables names the two tables.
type Tables struct {
	Control string // configuration, overrides, prices. Defaults to "control"
	Usage   string // counters, records, events. Defaults to "usage"
}

// Metering decides how long a record waits for others to share a transaction with. Either way a
// record is counted once, however often it is sent within 49 hours.
type Metering string

// The meterings.
const (
	// MeteringStrict waits only while another transaction of the same counters is in flight or
	// began less than Options.Linger ago: earlier answers, more write units.
	MeteringStrict Metering = "strict"
	// MeteringBatch always waits Options.Linger: fewer write units, later answers.
	MeteringBatch Metering = "batch"
)

// Policy decides about a call while the store does not answer.
type Policy string

// The policies.
const (
	// Refuse returns a *fault.UnavailableError.
	Refuse Policy = "refuse"
	// Allow answers without the store: Recommend with the last plan, marked Stale; Submit by
	// writing the record to the spool, marked Spooled.
	Allow Policy = "allow"
)

// OnUnavailable is the policy per operation.
type OnUnavailable struct {
	// Recommend defaults to Allow. Submit defaults to Allow with a spool, else to Refuse.
	Recommend, Submit Policy
}

// Options configures a Keeper. Every field is optional. The zero value, and nil in New, mean
// the defaults.
type Options struct {
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
	// CorrectClock corrects the clock by the offset to DynamoDB's clock, which it estimates
	// from the Date of responses, when the offset exceeds a second. So processes agree on the
	// end of a day. Defaults to true with the default Now, and to false otherwise.
	CorrectClock *bool
	// Models maps labels to model ids, for labels without one in the organisation's
	// configuration. Defaults to none.
	Models map[string]string
	// Prices take precedence over the embedded catalog, but not over prices stored with
	// Prices.Put. Defaults to none.
	Prices []prices.Price
	// Staleness is the maximal age of a known spend. Defaults to 5 s.
	Staleness time.Duration
	// ConfigTTL is how long a configuration may be used before it is read again. While the
	// store does not answer, it may be used for five minutes. Defaults to 30 s.
	ConfigTTL time.Duration
	// RequestTimeout bounds one request with the SDK's retries. A request that reaches it
	// counts as a store that does not answer. Creating and describing tables may take 10 s.
	// Defaults to 1 s.
	RequestTimeout time.Duration
	// Timeout bounds the time one call waits for the store, over all its requests. Sums of many
	// apps, or of more than a month, wait that long for each app and month. Afterwards the call
	// follows OnUnavailable, and its writes may still land. Defaults to 2 s.
	Timeout time.Duration
	// Metering defaults to MeteringStrict.
	Metering Metering
	// Linger is how long a transaction waits for further records: under load, or always with
	// MeteringBatch. Defaults to 40 ms.
	Linger time.Duration
	// OnUnavailable decides about calls while the store does not answer. Its fields name the
	// defaults.
	OnUnavailable OnUnavailable
	// OnEvent receives thresholds and changes of label. The call that finds an event waits for
	// it. If it panics, the panic is logged and the event delivered again later. Every event is
	// delivered at least once, by one of the processes with this hook; Event.ID is stable. nil
	// turns the search for events off.
	OnEvent func(context.Context, Event)
	// Spool is the path of a local append-only file for records that the store did not accept:
	// because it did not answer, or because credentials, permissions or tables are missing. The
	// keeper replays a record for up to 48 hours after its receipt, and counts it once. Only
	// one keeper may use a file; a lock on Spool + ".lock" gives another one ErrSpoolInUse.
	// Requires MeteringStrict or MeteringBatch. Empty means no spool.
	Spool string
	// SpoolBytes bounds the size of the spool, with its segments beside the path (Spool +
	// ".00000001" and so on). A record that does not fit is refused with ErrSpoolFull. Defaults
	// to 1 GiB, some 2.5 million records.
	SpoolBytes int64
	// SpoolInterval is the time between two replays of the spool. Defaults to 5 s.
	SpoolInterval time.Duration
	// OnRefused receives every spooled record that was refused for good, one at a time. An
	// unreadable line comes as a record with only a Refusal. The file Spool + ".refused"
	// contains them too. nil: only the file does.
	OnRefused func(SpooledUsage, error)
	// AllowUnknownApps allows calls for an app without a PutApp. Such an app has the
	// organisation's configuration, and its own quotas under ScopeApp. Defaults to false: such
	// calls fail with ErrNotFound, so a misspelt id never gets a quota and never adds to the
	// reads of sums.
	AllowUnknownApps bool
	// Principal is the author of administrative changes in audit events: 1 to 256 visible
	// characters, such as an ARN, an address or a service's name. Keeper.As returns a keeper
	// with another. Without a principal changes are refused, unless AllowAnonymous is set.
	// Defaults to "".
	Principal string
	// AllowAnonymous allows changes without a principal; their events have no author. Defaults
	// to false.
	AllowAnonymous bool
	// AuditRetention is how long audit events are kept. A negative value keeps them for ever.
	// Defaults to 90 days.
	AuditRetention time.Duration
	// KeepDays is the number of days that counters, totals and adjustments are kept after their
	// day. They get a time to live, by which DynamoDB removes them. Totals, TagTotals, History
	// and Adjust refuse older days. All keepers of a table share one value. The first one with
	// a value stores it, and Setup.PutSettings changes it. A keeper with another value follows
	// the stored one and logs that. A counter or total keeps the time to live of its first
	// writer. From 30 to 36,500. Defaults to the stored value, else 400.
	KeepDays int
	// namedDays is KeepDays as the caller gave it.
	namedDays int
	// Logger receives the errors that no caller gets. Defaults to discarding.
	Logger *slog.Logger
}

// defaultRetention is the default of Options.AuditRetention.
const defaultRetention = 90 * 24 * time.Hour

// withDefaults returns a copy of the options with defaults for zero fields and a copy of Models. namedDays
// keeps the given KeepDays, 0 if unset, because a stored value precedes the default.
func (o Options) withDefaults() Options {
	if o.CorrectClock == nil {
		o.CorrectClock = aws.Bool(o.Now == nil)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Models = maps.Clone(o.Models)
	o.Staleness = cmp.Or(o.Staleness, 5*time.Second)
	o.ConfigTTL = cmp.Or(o.ConfigTTL, 30*time.Second)
	o.Timeout = cmp.Or(o.Timeout, 2*time.Second)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, time.Second)
	o.Linger = cmp.Or(o.Linger, 40*time.Millisecond)
	o.SpoolBytes = cmp.Or(o.SpoolBytes, 1<<30)
	o.SpoolInterval = cmp.Or(o.SpoolInterval, 5*time.Second)
	o.AuditRetention = cmp.Or(o.AuditRetention, defaultRetention)
	o.namedDays = o.KeepDays
	o.KeepDays = cmp.Or(o.KeepDays, 400)
	o.OnUnavailable.Recommend = cmp.Or(o.OnUnavailable.Recommend, Allow)
	o.Metering = cmp.Or(o.Metering, MeteringStrict)
	if o.OnUnavailable.Submit == "" {
		o.OnUnavailable.Submit = Refuse
		if o.Spool != "" {
			o.OnUnavailable.Submit = Allow
		}
	}
	return o
}

// validate checks options with their defaults set. It returns a *fault.ValidationError for the
// first bad one.
func (o Options) validate() error {
	for _, check := range []func() error{o.validTimes, o.OnUnavailable.validate, o.checkModels, o.validPrincipal} {
		if err := check(); err != nil {
			return err
		}
	}
	switch {
	case !isValidRetention(o.KeepDays):
		return invalid("options.keep_days", "is %d; give 30 to 36500 days, or 0 for 400", o.KeepDays)
	case !slices.Contains([]Metering{MeteringStrict, MeteringBatch}, o.Metering):
		return invalid("options.metering", "is %q; give MeteringStrict or MeteringBatch", o.Metering)
	case o.SpoolBytes < 0:
		return invalid("options.spool_bytes", "is %d; give a size in bytes, or 0 for 1 GiB", o.SpoolBytes)
	case o.OnUnavailable.Submit == Allow && o.Spool == "":
		return invalid("options.on_unavailable.submit", "Allow needs Options.Spool, or records would be lost")
	}
	return nil
}

// checkModels returns a *fault.ValidationError if a default model of the options has a bad label or model id,
// as validModels does.
func (o Options) checkModels() error {
	return validModels("options.models.", o.Models)
}

// validPrincipal returns a *fault.ValidationError if Principal is set and is not a valid name for audit events.
// An empty one is valid here.
func (o Options) validPrincipal() error {
	if o.Principal == "" {
		return nil
	}
	if reason := trail.CheckPrincipal(o.Principal); reason != "" {
		return invalid("options.principal", "%s", reason)
	}
	return nil
}

// validate returns a *fault.ValidationError unless Recommend and Submit are both Refuse or Allow. The defaults
// must be set.
func (o OnUnavailable) validate() error {
	for _, p := range []struct {
		field string
		value Policy
	}{{"recommend", o.Recommend}, {"submit", o.Submit}} {
		if p.value != Refuse && p.value != Allow {
			return invalid("options.on_unavailable."+p.field, "is %q; give Refuse or Allow, or leave it empty", p.value)
		}
	}
	return nil
}

// validTimes returns a *fault.ValidationError for an unusable clock or a negative duration.
func (o Options) validTimes() error {
	if reason := ddb.CheckSource(o.Now); reason != "" {
		return invalid("options.now", "%s", reason)
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"staleness", o.Staleness},
		{"config_ttl", o.ConfigTTL},
		{"linger", o.Linger},
		{"spool_interval", o.SpoolInterval},
		{"request_timeout", o.RequestTimeout},
		{"timeout", o.Timeout},
	} {
		if d.value < 0 {
			return invalid("options."+d.field, "is %v; give a positive duration, or 0 for the default", d.value)
		}
	}
	return nil
}
