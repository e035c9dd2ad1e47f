package budget

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/trail"
	"github.com/dynalimit/dynalimit/keeper/internal/background"
	"github.com/dynalimit/dynalimit/keeper/internal/ledger"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
	"github.com/dynalimit/dynalimit/prices"
)

// Keeper manages the budgets of organisations and their apps: it recommends a model label, and
// counts the costs of calls. Make one per process with New, and Close it at the end. It is safe
// for concurrent use. The zero value is not usable: its methods return a
// *fault.ValidationError. They also return one for a nil context.
//
// Call Recommend before a call for a label with room, and Submit after it to count the cost.
// Totals and TagTotals read the spend; Adjust corrects it by hand. Setup and Prices configure.
// As returns a keeper that makes changes in somebody's name.
type Keeper struct {
	*core
	principal string // author of changes; empty if unknown
}

// core is shared by a keeper and the keepers that its As returns: everything except the name.
type core struct {
	client  Client // for table management
	store   *store.Store
	clock   *ddb.Clock
	tables  breakers
	opts    Options
	life    *background.Life
	closed  sync.Once
	spool   *spool // nil without a spool
	tenants *tenants

	ledger      *ledger.Ledger  // counters
	admin       *administration // organisations, apps, prices, overrides
	standing    *standing       // spend and its consequences
	recommender *recommender    // the choice of labels
	days        *days           // totals and history
	sweeper     *sweeper        // background work on closed days and events
	charges     *charges        // records and adjustments
}

// New returns a keeper on two tables. nil options mean the defaults. It sends no request. It
// starts a goroutine only for a spool; Close ends it.
//
// Errors: *fault.ValidationError for bad options or prices, ErrSpoolInUse, and errors of the
// spool's file.
func New(client Client, tables Tables, options *Options) (*Keeper, error) {
	var opts Options
	if options != nil {
		opts = *options
	}
	opts = opts.withDefaults()
	if problem.IsNil(client) {
		return nil, invalid("client", "is nil; pass the client of awsclient.New, or ddbmem.New().Client() in tests")
	}
	if err := opts.validate(); err != nil {
		return nil, err
	}
	tables.Control = cmp.Or(tables.Control, "control")
	tables.Usage = cmp.Or(tables.Usage, "usage")
	if err := tables.validate(); err != nil {
		return nil, err
	}
	optionBook, err := prices.NewBook(opts.Prices)
	if err != nil {
		return nil, err
	}
	catalogBook, err := prices.NewBook(prices.Catalog())
	if err != nil {
		return nil, err
	}
	k := &core{clock: ddb.NewClock(opts.Now, *opts.CorrectClock), opts: opts, life: background.New()}
	k.connectStore(client, tables)
	if opts.Spool != "" {
		if k.spool, err = openSpool(opts.Spool, opts.SpoolBytes); err != nil {
			return nil, err
		}
	}
	k.makeParts(priceLayers{{layerOptions, optionBook}, {layerCatalog, catalogBook}})
	if k.spool != nil {
		k.life.Begin(false)
		go k.charges.replayLoop()
	}
	return &Keeper{core: k, principal: opts.Principal}, nil
}

// makeParts sets the keeper's ledger, administration and other parts, each from those made before it. own are
// the prices of the options and the catalog. It sends no request and starts no goroutine.
func (k *core) makeParts(own priceLayers) {
	k.admin = newAdministration(k.store, k.now, own, k.opts, k.life, k.tables)
	k.tenants = k.admin.tenants
	k.ledger = ledger.New(ledger.Options{
		Store: k.store, Breaker: k.tables.usage, Life: k.life, Now: k.now, Logger: k.opts.Logger,
		Linger: k.opts.Linger, KeepDays: k.admin.settings.keepDays, AlwaysLinger: k.opts.Metering == MeteringBatch, Fresh: k.opts.Staleness,
	})
	k.standing = newStanding(k.store, k.ledger, k.admin, k.opts, k.now, k.life)
	k.recommender = newRecommender(k.standing)
	k.days = &days{store: k.store, ledger: k.ledger, admin: k.admin, tenants: k.tenants, opts: k.opts, now: k.now}
	k.sweeper = &sweeper{standing: k.standing, days: k.days}
	k.charges = &charges{
		store: k.store, ledger: k.ledger, admin: k.admin, standing: k.standing, tenants: k.tenants,
		spool: k.spool, opts: k.opts, now: k.now, life: k.life,
	}
}

// now returns the current time of the keeper's clock, corrected by DynamoDB's clock if Options say so.
func (k *core) now() time.Time { return k.clock.Now() }

// Close refuses later calls with ErrClosed, waits until accepted operations are written and found events
// delivered, and closes the spool. If ctx ends first, it stops the work and returns ctx's error. A keeper of As
// shares this; a second Close does nothing.
func (k *Keeper) Close(ctx context.Context) error {
	err := k.checkUsable(ctx)
	if err != nil {
		return err
	}
	k.closed.Do(func() {
		k.ledger.Close()
		k.life.Close()
		done := make(chan struct{})
		k.standing.stopTimers()
		go func() {
			defer close(done)
			k.ledger.Wait()
			k.life.Wait()
			k.ledger.Wait() // for the writes of the tasks
			k.standing.deliverAll(ctx)
		}()
		select {
		case <-done:
		case <-ctx.Done():
			err = ctx.Err()
			k.life.Cancel()
			<-done
		}
		k.life.Cancel()
		k.tables.usage.Stop()
		k.tables.control.Stop()
		if k.spool != nil {
			err = errors.Join(err, k.spool.close())
		}
	})
	return err
}

// Recommend returns the label that an app may use now: an active override's, else the first in its ordering
// with a price and room. It sends no request while the cached state is fresh. Without room it fails with a
// *prices.QuotaExceededError; in an outage Options.OnUnavailable decides.
func (k *Keeper) Recommend(ctx context.Context, org, app string) (Recommendation, error) {
	if err := k.checkUsable(ctx); err != nil {
		return Recommendation{}, err
	}
	return k.recommender.recommendLabel(ctx, org, app, false)
}

// RecommendFresh is Recommend with a query of the store first, however fresh the cached spend is, unless the
// last query began within half a second.
func (k *Keeper) RecommendFresh(ctx context.Context, org, app string) (Recommendation, error) {
	if err := k.checkUsable(ctx); err != nil {
		return Recommendation{}, err
	}
	return k.recommender.recommendLabel(ctx, org, app, true)
}

// Estimate returns the cost of a call at a label's price now, in µ$, rounded up, for
// inputTokens input tokens and maxTokens output tokens. A label outside the app's ordering is a
// *fault.ValidationError with fault.InvalidModelLabel. If the store does not answer and
// OnUnavailable.Recommend is Allow, Estimate uses the last known price.
func (k *Keeper) Estimate(ctx context.Context, org, app, label string, inputTokens, maxTokens int64) (int64, error) {
	if err := k.checkUsable(ctx); err != nil {
		return 0, err
	}
	return k.standing.estimateCost(ctx, org, app, label, inputTokens, maxTokens)
}

// Submit counts the cost of a call once under its request id. The same payload sent again
// returns the counted record, marked Duplicate. Another payload returns ErrConflict. The call
// is priced by the model that it names, whatever model its label has now. A
// *fault.ValidationError refuses a label that the organisation never used, a model that its
// label never had, a time outside the window, and a model without a price.
// Options.OnUnavailable decides about a store that does not answer. It is always safe to send
// the record again. If ctx ends before the record was sent, the record is not counted and the
// error has Unconfirmed false: pass a ctx that outlives the client's request.
func (k *Keeper) Submit(ctx context.Context, org, app string, usage prices.Usage) (Receipt, error) {
	if err := k.checkUsable(ctx); err != nil {
		return Receipt{}, err
	}
	return k.charges.submitRecord(ctx, org, app, usage)
}

// SubmitBatch submits 1 to 100 records and returns a result for each, in order; records for one counter share
// transactions. A repetition within the batch is a duplicate. An error in place of the results means that no
// record was counted.
func (k *Keeper) SubmitBatch(ctx context.Context, org, app string, usages []prices.Usage) ([]BatchResult, error) {
	if err := k.checkUsable(ctx); err != nil {
		return nil, err
	}
	return k.charges.submitBatch(ctx, org, app, usages)
}

// Replay submits the records of the spool now, instead of at the next interval. Records that
// are refused for good, and unreadable lines, go to Options.OnRefused and to the refused file.
// Replay stops when the store fails for a whole batch. It returns the first error of the store,
// and keeps the remaining records.
func (k *Keeper) Replay(ctx context.Context) error {
	if err := k.checkUsable(ctx); err != nil {
		return err
	}
	return k.charges.replaySpool(ctx)
}

// Totals returns one day's usage by label in micro-dollars, summed consistently from the store. An empty day
// means today, an empty app the whole organisation; a day before Options.KeepDays is a *fault.ValidationError.
// It then stores missing totals of closed days in the background.
func (k *Keeper) Totals(ctx context.Context, org, app, day string) (DayTotals, error) {
	if err := k.checkUsable(ctx); err != nil {
		return DayTotals{}, err
	}
	return k.days.readTotals(ctx, org, app, day)
}

// History returns the days from one to another, both included, oldest first. It leaves out days
// after today. A day before Options.KeepDays is a *fault.ValidationError. It reads a past day
// as one item per label. After the read it stores up to 100 missing items for the next one.
func (k *Keeper) History(ctx context.Context, org, app, from, to string) iter.Seq2[DayTotals, error] {
	if err := k.checkUsable(ctx); err != nil {
		return problem.ErrorList[DayTotals](err)
	}
	return k.days.readHistory(ctx, org, app, from, to)
}

// TagTotals reads one day's cost in micro-dollars by the values of a tag, and returns the most expensive first.
// An empty day means today, an empty app the whole organisation; a bad tag or an expired day is a
// *fault.ValidationError.
func (k *Keeper) TagTotals(ctx context.Context, org, app, day, tag string) ([]TagTotal, error) {
	if err := k.checkUsable(ctx); err != nil {
		return nil, err
	}
	return k.days.tagTotals(ctx, org, app, day, tag)
}

// Events lists the stored events of an app's scope, reached thresholds and changes of label, ordered by day,
// delivered or not. An error is the only element.
func (k *Keeper) Events(ctx context.Context, org, app string) iter.Seq2[Event, error] {
	if err := k.checkUsable(ctx); err != nil {
		return problem.ErrorList[Event](err)
	}
	return k.standing.listEvents(ctx, org, app)
}

// Sticky reads the record of the label in use. It fails with ErrNotFound if the app has used
// only its first label today, or if the organisation keeps no such record. While an override is
// active, it returns the override, with the record's label as the previous one. The stored
// record still has the label that the spend leads to.
func (k *Keeper) Sticky(ctx context.Context, org, app string) (Sticky, error) {
	if err := k.checkUsable(ctx); err != nil {
		return Sticky{}, err
	}
	return k.standing.readSticky(ctx, org, app)
}

// Sweep does in advance the work that reads and calls would do later. It closes days of the
// last week, delivers pending events, and finds new thresholds. Nothing depends on it. Without
// ids it takes every organisation and app with records on a day that is not closed, so idle
// ones cost nothing. With ids it takes those organisations entirely. One that fails is in the
// error and does not affect the others.
func (k *Keeper) Sweep(ctx context.Context, orgs ...string) (SweepReport, error) {
	if err := k.checkUsable(ctx); err != nil {
		return SweepReport{}, err
	}
	return k.sweeper.sweepAll(ctx, orgs...)
}

// Stats returns the keeper's counts of cache lookups since New, and the used percentages of quotas. It sends no
// request. It is zero for a keeper that New did not make.
func (k *Keeper) Stats() Stats {
	if k == nil || k.core == nil {
		return Stats{}
	}
	config := k.tenants.loading.Stats()
	hits, misses := k.ledger.LookupCounts()
	return Stats{
		ConfigHits: config.Hits + config.StaleHits, ConfigMisses: config.Misses,
		TotalHits: hits, TotalMisses: misses, QuotaPercent: k.standing.nearestQuotas(k.now()),
	}
}

// Health returns the state of the usage table, or of the control table if only that one does not answer, and
// the amount of pending work. It sends no request. A keeper that New did not make, or that is closed, is not
// Ready.
func (k *Keeper) Health() Health {
	if k == nil || k.core == nil {
		return Health{}
	}
	s := k.tables.usage.State()
	if control := k.tables.control.State(); !s.Open && control.Open {
		s = control
	}
	h := Health{Open: s.Open, Queued: k.ledger.Queued()}
	h.Spooled, h.SpoolBytes = k.charges.countSpooled()
	if s.Open {
		h.Since, h.Cause, h.NextProbe = s.Since, s.Cause, s.NextProbe
	}
	h.Ready = !k.life.Closed() && (!s.Open || k.opts.OnUnavailable.Recommend == Allow)
	return h
}

// As returns a keeper that makes changes under the name principal, as Options.Principal does.
// It shares everything else with k: closing either closes both. It sends no request. The first
// change validates the name.
func (k *Keeper) As(principal string) *Keeper {
	if k == nil {
		return &Keeper{}
	}
	return &Keeper{core: k.core, principal: principal}
}

// changeAuthor returns the keeper's principal as the author of a change, and "" only under
// Options.AllowAnonymous. It returns a *fault.ValidationError for a missing or bad principal, an unusable
// keeper, or a nil ctx.
func (k *Keeper) changeAuthor(ctx context.Context) (string, error) {
	if err := k.checkUsable(ctx); err != nil {
		return "", err
	}
	if k.principal == "" {
		if k.opts.AllowAnonymous {
			return "", nil
		}
		return "", invalid("principal", "is empty; say who makes the change with keeper.As(name) or Options.Principal, or set Options.AllowAnonymous")
	}
	if reason := trail.CheckPrincipal(k.principal); reason != "" {
		return "", invalid("principal", "%s", reason)
	}
	return k.principal, nil
}

// checkUsable returns a *fault.ValidationError if New did not make k or if ctx is nil, else nil. A closed
// keeper passes.
func (k *Keeper) checkUsable(ctx context.Context) error {
	if k == nil || k.core == nil {
		return invalid("keeper", "was not made by New; make one with budget.New(client, budget.Tables{}, nil)")
	}
	return problem.CheckContext(ctx, pkg)
}

// connectStore sets k.tables, k.client and k.store for requests through client. While a table does not answer,
// its breaker fails requests at once, and a goroutine probes the table. It sends no request itself.
func (k *core) connectStore(client Client, tables Tables) {
	var patient *ddb.Client
	breaker := func(table string) *ddb.Breaker {
		return ddb.NewBreaker(ddb.BreakerOptions{
			Probe:  func(ctx context.Context) error { return probeTable(ctx, patient, table) },
			Logger: k.opts.Logger.With("table", table),
		})
	}
	k.tables = breakers{usage: breaker(tables.Usage), control: breaker(tables.Control)}
	patient = ddb.Watch(client, k.tables.usage, k.clock, k.opts.RequestTimeout).WithTable(tables.Control, k.tables.control)
	k.client = patient.FailFast()
	k.store = &store.Store{Client: k.client, Control: tables.Control, Usage: tables.Usage}
}

// probeTable sends a table an update whose condition never holds, to check that it answers writes; nothing
// changes. It returns the request's error, normally the refusal of the condition. If the condition held, it
// returns ddb.ErrForeign.
func probeTable(ctx context.Context, client Client, table string) error {
	_, err := client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &table, Key: store.Key{PK: "PROBE#" + store.NewID(), SK: "PROBE"}.Attributes(),
		ConditionExpression: aws.String("attribute_exists(PK) AND attribute_not_exists(PK)"),
	}, store.Once)
	if err == nil { // a real DynamoDB never accepts the condition
		return ddb.ErrForeign
	}
	return err
}
