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

// Keeper keeps the budgets of organisations and their apps: it says which model label an
// app may use, and counts what calls cost. Make one with New
// for each process, and Close it at the end. It is safe for concurrent use. The zero
// value is not usable: methods that return an error return a *fault.ValidationError for it,
// and for a nil context.
//
// Which method to use:
//
// Recommend before a call says which label still has room, and Submit after it counts what
// it cost. Totals and TagTotals read what was spent; Adjust corrects it by hand.
// Setup and Prices configure. As gives a keeper that changes things in somebody's name.
type Keeper struct {
	*core
	principal string // who makes changes; empty: nobody known
}

// core is what a keeper and those of its As share: everything but the name.
type core struct {
	client  Client // of the tables themselves
	store   *store.Store
	clock   *ddb.Clock
	tables  breakers
	opts    Options
	life    *background.Life
	closed  sync.Once
	spool   *spool // nil: none
	tenants *tenants

	ledger      *ledger.Ledger  // what is counted
	admin       *administration // organisations, apps, prices, overrides
	standing    *standing       // what is spent and what it leads to
	recommender *recommender    // which label that leads to
	days        *days           // what was spent
	sweeper     *sweeper        // what nobody asked for
	charges     *charges        // records, adjustments
}

// New makes a keeper on two tables. Nil options are the defaults. It makes no
// request, and starts a goroutine only for a spool, which Close ends.
//
// Errors: *fault.ValidationError for bad options or prices, ErrSpoolInUse, and what the
// file system says of the spool.
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
	k.connect(client, tables)
	if opts.Spool != "" {
		if k.spool, err = openSpool(opts.Spool, opts.SpoolBytes); err != nil {
			return nil, err
		}
	}
	k.compose(priceLayers{{layerOptions, optionBook}, {layerCatalog, catalogBook}})
	if k.spool != nil {
		k.life.Begin(false)
		go k.charges.replayLoop()
	}
	return &Keeper{core: k, principal: opts.Principal}, nil
}

// compose makes the parts of the keeper, each from the parts below it. The ledger and
// the administration know no other part; the standing reads both; charges write.
func (k *core) compose(own priceLayers) {
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

func (k *core) now() time.Time { return k.clock.Now() }

// Close waits until everything accepted is written and every event found is
// delivered, or ctx ends. Calls made afterwards fail with ErrClosed, also those of the
// keepers of As, which are the same one; a second Close does nothing.
func (k *Keeper) Close(ctx context.Context) error {
	err := k.usable(ctx)
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
			k.ledger.Wait() // for what the tasks wrote
			k.standing.observeAll(ctx)
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

// Recommend says which label of its ordering an app may use now: the first that has a
// price and is within its quota. If everything is known, it makes no request. If no
// label is left, it fails with a *QuotaExceededError. Options.OnUnavailable says what
// happens if the store does not answer.
func (k *Keeper) Recommend(ctx context.Context, org, app string) (Recommendation, error) {
	if err := k.usable(ctx); err != nil {
		return Recommendation{}, err
	}
	return k.recommender.recommend(ctx, org, app, false)
}

// RecommendFresh is Recommend with a query of the store, unless the last one began within half a
// second.
func (k *Keeper) RecommendFresh(ctx context.Context, org, app string) (Recommendation, error) {
	if err := k.usable(ctx); err != nil {
		return Recommendation{}, err
	}
	return k.recommender.recommend(ctx, org, app, true)
}

// Estimate is what a call would cost at a label's price now, in µ$, rounded up: inputTokens
// in and maxTokens out. A label outside the app's ordering is a *fault.ValidationError with
// fault.InvalidModelLabel. When the store does not answer and OnUnavailable.Recommend is
// Allow, the last price known is used.
func (k *Keeper) Estimate(ctx context.Context, org, app, label string, inputTokens, maxTokens int64) (int64, error) {
	if err := k.usable(ctx); err != nil {
		return 0, err
	}
	return k.standing.estimate(ctx, org, app, label, inputTokens, maxTokens)
}

// Submit counts what a call cost, once, under its request id. If it is sent again with
// the same payload, it returns what was counted, marked Duplicate; with another payload
// it returns ErrConflict. It is priced by the model that it names, whatever its label means
// now. A label that the organisation never used, a model that its label never had, a time
// outside the window or a model without a price is a *fault.ValidationError.
// Options.OnUnavailable says what happens if the store does not answer; it is always
// safe to send the record again. If ctx ends before the record was sent, the error says
// so (Unconfirmed is false) and the record is not counted: pass a ctx that lasts longer
// than the client's.
func (k *Keeper) Submit(ctx context.Context, org, app string, usage prices.Usage) (Receipt, error) {
	if err := k.usable(ctx); err != nil {
		return Receipt{}, err
	}
	return k.charges.submit(ctx, org, app, usage)
}

// SubmitBatch submits 1 to 100 records. Each has a result or an error of its
// own, in their order; a repeat within the batch is a duplicate. Records for
// one counter share transactions.
func (k *Keeper) SubmitBatch(ctx context.Context, org, app string, usages []prices.Usage) ([]BatchResult, error) {
	if err := k.usable(ctx); err != nil {
		return nil, err
	}
	return k.charges.submitBatch(ctx, org, app, usages)
}

// Replay submits what waits in the spool now, instead of at the next interval.
// Records refused for good go to Options.OnRefused and the refused file, and so
// do lines that cannot be read. It stops when the store fails and takes none of a batch,
// and returns the first error of the store; what it did not take stays.
func (k *Keeper) Replay(ctx context.Context) error {
	if err := k.usable(ctx); err != nil {
		return err
	}
	return k.charges.replay(ctx)
}

// Totals sums one day from the store, consistently. An empty day is today; a day before
// Options.KeepDays is a *fault.ValidationError. An empty app sums the whole organisation.
func (k *Keeper) Totals(ctx context.Context, org, app, day string) (DayTotals, error) {
	if err := k.usable(ctx); err != nil {
		return DayTotals{}, err
	}
	return k.days.totals(ctx, org, app, day)
}

// History gives the days from one to another, both included, oldest first.
// Days after today are left out; one before Options.KeepDays is a *fault.ValidationError. Days that are over are read as one item per
// label; a read stores up to 100 of those items, after it, for the next.
func (k *Keeper) History(ctx context.Context, org, app, from, to string) iter.Seq2[DayTotals, error] {
	if err := k.usable(ctx); err != nil {
		return problem.List[DayTotals](err)
	}
	return k.days.history(ctx, org, app, from, to)
}

// TagTotals sums one day's cost by the values of a tag, the most expensive first. An
// empty day means today, an empty app the whole organisation.
func (k *Keeper) TagTotals(ctx context.Context, org, app, day, tag string) ([]TagTotal, error) {
	if err := k.usable(ctx); err != nil {
		return nil, err
	}
	return k.days.tagTotals(ctx, org, app, day, tag)
}

// Events lists the stored events of an app's scope, in the order of their days.
func (k *Keeper) Events(ctx context.Context, org, app string) iter.Seq2[Event, error] {
	if err := k.usable(ctx); err != nil {
		return problem.List[Event](err)
	}
	return k.standing.events(ctx, org, app)
}

// Sticky reads the record. It fails with ErrNotFound if the app has only used its first
// label today, or if the organisation keeps no such record. While an override is
// followed, it returns the override, with the record's label as the one before; the
// stored record still says where spend leads.
func (k *Keeper) Sticky(ctx context.Context, org, app string) (Sticky, error) {
	if err := k.usable(ctx); err != nil {
		return Sticky{}, err
	}
	return k.standing.sticky(ctx, org, app)
}

// Sweep sees to what otherwise happens when somebody asks: it closes the days
// of the last week that are over, delivers events that were left undelivered, and finds
// thresholds that nobody looked for. Nothing depends on it. Without ids it takes every
// organisation and app for which something was counted on a day that is not closed: what spends
// nothing costs nothing. With ids it takes all of those organisations. What cannot be swept is in
// the error, and keeps none of the others.
func (k *Keeper) Sweep(ctx context.Context, orgs ...string) (SweepReport, error) {
	if err := k.usable(ctx); err != nil {
		return SweepReport{}, err
	}
	return k.sweeper.sweep(ctx, orgs...)
}

// Stats returns what the keeper did so far. It makes no request.
func (k *Keeper) Stats() Stats {
	if k == nil || k.core == nil {
		return Stats{}
	}
	config := k.tenants.loading.Stats()
	hits, misses := k.ledger.Looks()
	return Stats{
		ConfigHits: config.Hits + config.StaleHits, ConfigMisses: config.Misses,
		TotalHits: hits, TotalMisses: misses, QuotaPercent: k.standing.nearest(k.now()),
	}
}

// Health says how the keeper stands with the store. It makes no request. A keeper that
// New did not make is not Ready.
func (k *Keeper) Health() Health {
	if k == nil || k.core == nil {
		return Health{}
	}
	s := k.tables.usage.State()
	if control := k.tables.control.State(); !s.Open && control.Open {
		s = control
	}
	h := Health{Open: s.Open, Queued: k.ledger.Queued()}
	h.Spooled, h.SpoolBytes = k.charges.spooled()
	if s.Open {
		h.Since, h.Cause, h.NextProbe = s.Since, s.Cause, s.NextProbe
	}
	h.Ready = !k.life.Closed() && (!s.Open || k.opts.OnUnavailable.Recommend == Allow)
	return h
}

// As returns a keeper that makes changes in somebody's name, as Options.Principal does.
// It is the same keeper otherwise and shares everything with k; to close either closes
// both. It takes no time and makes no request. A name that cannot be one is refused by
// the first change.
func (k *Keeper) As(principal string) *Keeper {
	if k == nil {
		return &Keeper{}
	}
	return &Keeper{core: k.core, principal: principal}
}

// author is who makes a change, or why nobody may: it comes before anything is read.
func (k *Keeper) author(ctx context.Context) (string, error) {
	if err := k.usable(ctx); err != nil {
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

// usable refuses calls of a keeper that New did not make, and without a context.
func (k *Keeper) usable(ctx context.Context) error {
	if k == nil || k.core == nil {
		return invalid("keeper", "was not made by New; make one with budget.New(client, budget.Tables{}, nil)")
	}
	return problem.NoContext(ctx, pkg)
}

// connect makes the store over a user's client. While a table is known not to
// answer its requests fail at once; one goroutine asks it in the background.
func (k *core) connect(client Client, tables Tables) {
	var patient *ddb.Client
	breaker := func(table string) *ddb.Breaker {
		return ddb.NewBreaker(ddb.BreakerOptions{
			Probe:  func(ctx context.Context) error { return probe(ctx, patient, table) },
			Logger: k.opts.Logger.With("table", table),
		})
	}
	k.tables = breakers{usage: breaker(tables.Usage), control: breaker(tables.Control)}
	patient = ddb.Watch(client, k.tables.usage, k.clock, k.opts.RequestTimeout).Beside(tables.Control, k.tables.control)
	k.client = patient.Hasty()
	k.store = &store.Store{Client: k.client, Control: tables.Control, Usage: tables.Usage}
}

// probe asks a table for proof that it takes writes: an update of an absent item
// whose condition cannot hold, so that it never writes.
func probe(ctx context.Context, client Client, table string) error {
	_, err := client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &table, Key: store.Key{PK: "PROBE#" + store.NewID(), SK: "PROBE"}.Attributes(),
		ConditionExpression: aws.String("attribute_exists(PK) AND attribute_not_exists(PK)"),
	}, store.Once)
	if err == nil { // no DynamoDB finds that the condition holds
		return ddb.ErrForeign
	}
	return err
}
