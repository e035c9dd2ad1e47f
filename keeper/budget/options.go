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

// Metering says how long a record waits for others, with which it shares a transaction. A record is
// counted once in either, however often it is sent within 49 hours.
type Metering string

// The meterings.
const (
	// MeteringStrict waits only while another transaction of its counters is in flight, or began
	// less than Options.Linger ago: earlier answers, more write units.
	MeteringStrict Metering = "strict"
	// MeteringBatch always waits Options.Linger: fewer write units, later answers.
	MeteringBatch Metering = "batch"
)

// Policy says what a call does while the store does not answer.
type Policy string

// The policies.
const (
	// Refuse returns an *fault.UnavailableError.
	Refuse Policy = "refuse"
	// Allow answers from what is known: Recommend with the last plan, marked
	// Stale; Submit by keeping the record in the spool, marked Spooled.
	Allow Policy = "allow"
)

// OnUnavailable is the policy per operation.
type OnUnavailable struct {
	// Recommend defaults to Allow, and Submit to Allow when there is a spool, else to
	// Refuse.
	Recommend, Submit Policy
}

// Options configures a Keeper. Every field is optional: the zero value, and nil passed
// to New, give the defaults that the fields name.
type Options struct {
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
	// CorrectClock estimates the offset to DynamoDB's clock from the Date of its
	// answers and corrects for it when it exceeds a second, so that processes
	// agree on when a day ends. Defaults to on with the default Now, off
	// with a Now of your own.
	CorrectClock *bool
	// Models gives a label its model id where the organisation's configuration
	// does not. Defaults to none.
	Models map[string]string
	// Prices come before the embedded Catalog, and after prices stored with
	// Prices.Put. Defaults to none.
	Prices []prices.Price
	// Staleness is how old a known spend may be. Defaults to 5 s.
	Staleness time.Duration
	// ConfigTTL is how long a configuration may be used without looking whether
	// it was changed elsewhere; five minutes while the store does not answer.
	// Defaults to 30 s.
	ConfigTTL time.Duration
	// RequestTimeout bounds one request of the store with the SDK's tries of it.
	// One that takes all of it says that the store does not answer. Creating and
	// describing the tables may take 10 s. Defaults to 1 s.
	RequestTimeout time.Duration
	// Timeout bounds what one call waits for the store, reads and tries together; sums of
	// many apps, and of more than a month, wait that long for each app and month.
	// After it a call does as OnUnavailable says; what was sent may still be
	// applied. Defaults to 2 s.
	Timeout time.Duration
	// Metering defaults to MeteringStrict.
	Metering Metering
	// Linger is how long a transaction waits for further records under load, or
	// always in MeteringBatch. Defaults to 40 ms.
	Linger time.Duration
	// OnUnavailable says what to do when the store does not answer. See its fields
	// for the defaults.
	OnUnavailable OnUnavailable
	// OnEvent is told of thresholds and changes of label, while the call that found
	// them waits. One that panics is logged, and told again later. Every event is delivered at least once, by one
	// of the processes that have the hook; Event.ID is stable. Nil: events are neither
	// looked for nor told.
	OnEvent func(context.Context, Event)
	// Spool is the path of a local append-only file that keeps records the store
	// did not take, until it does: while it does not answer, and also while
	// credentials, permissions or tables are missing. One keeper per file:
	// another gets ErrSpoolInUse, by a lock on the file Spool + ".lock". A record
	// is replayed for up to 48 hours after it was received, and counted once.
	// Needs MeteringStrict or MeteringBatch. Empty: none.
	Spool string
	// SpoolBytes bounds the spool, with its segments beside the path (Spool + ".00000001" and so
	// on): a record that does not fit is refused with ErrSpoolFull. Defaults to 1 GiB, some 2.5
	// million records.
	SpoolBytes int64
	// SpoolInterval is how often the spool is replayed. Defaults to 5 s.
	SpoolInterval time.Duration
	// OnRefused is given every spooled record that was refused for good, one at a
	// time; it also stays in the file Spool + ".refused". A line that cannot be
	// read comes as a record with nothing but a Refusal. Nil: the file alone has it.
	OnRefused func(SpooledUsage, error)
	// AllowUnknownApps lets calls name an app that nobody put: it has the organisation's
	// configuration, and quotas of its own under ScopeApp. Defaults to false: ErrNotFound,
	// so that no misspelt or made-up id has a quota, or is one more that sums have to read.
	AllowUnknownApps bool
	// Principal is who makes the changes that an administrator makes, as their events
	// tell: 1 to 256 characters that can be seen, such as an ARN, an address or a
	// service's name. Keeper.As gives a keeper with another. Defaults to nobody: then
	// changes are refused, unless AllowAnonymous is set.
	Principal string
	// AllowAnonymous lets changes be made without a principal; their events name
	// nobody. Defaults to false.
	AllowAnonymous bool
	// AuditRetention is how long the events of changes are kept; below zero for
	// ever. Defaults to 90 days.
	AuditRetention time.Duration
	// KeepDays is how many days what was counted is kept after its day: counters, totals and
	// adjustments get a time to live, by which DynamoDB removes them. Older days are refused
	// by Totals, TagTotals, History and Adjust. All keepers of a table keep the same: the first
	// one that names a number stores it for all, Setup.PutSettings changes it, and a keeper with
	// another follows what is stored and logs so. A counter or total keeps the time to live that
	// its first writer gave it. From 30 to 36,500. Defaults to what is stored, else 400.
	KeepDays int
	// namedDays are KeepDays as they were given.
	namedDays int
	// Logger gets what no caller is told. Defaults to discarding.
	Logger *slog.Logger
}

// defaultRetention is Options.AuditRetention unless it is set.
const defaultRetention = 90 * 24 * time.Hour

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

func (o Options) validate() error {
	for _, check := range []func() error{o.validTimes, o.OnUnavailable.validate, o.validModels, o.validPrincipal} {
		if err := check(); err != nil {
			return err
		}
	}
	switch {
	case !keepable(o.KeepDays):
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

func (o Options) validModels() error {
	return validModels("options.models.", o.Models)
}

func (o Options) validPrincipal() error {
	if o.Principal == "" {
		return nil
	}
	if reason := trail.CheckPrincipal(o.Principal); reason != "" {
		return invalid("options.principal", "%s", reason)
	}
	return nil
}

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
