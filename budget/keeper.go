package budget

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/background"
	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/problem"
)

// Keeper keeps the budgets of organisations and their apps: it says which model label an
// app may use, and counts what calls cost. Make one with New
// for each process, and Close it at the end. It is safe for concurrent use. The zero
// value is not usable: methods that return an error return a *ValidationError for it,
// and for a nil context.
//
// Which method to use:
//
// Recommend before a call says which label still has room, and Submit after it counts what
// it cost. Totals and TagTotals read what was spent; Adjust corrects it by hand.
// PutOrg, PutApp and PutPrices configure, and CreateTables makes the two tables. As gives
// a keeper that changes things in somebody's name, and Audit lists who changed what.
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

	ledger   *ledger.Ledger  // what is counted
	admin    *administration // organisations, apps, prices, overrides
	standing *standing       // what is spent and what it leads to
	charges  *charges        // records, adjustments
}

// breakers know whether the tables answer.
type breakers struct{ control, usage *ddb.Breaker }

const cacheEntries = 10_000

// New makes a keeper on two tables. Nil options are the defaults. It makes no
// request, and starts a goroutine only for a spool, which Close ends.
//
// Errors: *ValidationError for bad options or prices, ErrSpoolInUse, and what the
// file system says of the spool.
func New(client Client, tables Tables, options *Options) (*Keeper, error) {
	var opts Options
	if options != nil {
		opts = *options
	}
	opts = opts.withDefaults()
	if problem.IsNil(client) {
		return nil, invalid("client", "is nil; pass dynamodb.NewFromConfig(cfg), or ddbmem.New().Client() in tests")
	}
	if err := opts.validate(); err != nil {
		return nil, err
	}
	tables.Control = cmp.Or(tables.Control, "control")
	tables.Usage = cmp.Or(tables.Usage, "usage")
	if err := tables.validate(); err != nil {
		return nil, err
	}
	optionBook, err := newPriceBook(opts.Prices)
	if err != nil {
		return nil, err
	}
	catalogBook, err := newPriceBook(Catalog())
	if err != nil {
		return nil, err
	}
	k := &core{clock: ddb.NewClock(opts.Now, *opts.CorrectClock), opts: opts, life: background.New()}
	k.connect(client, tables)
	if opts.Spool != "" {
		if k.spool, err = openSpool(opts.Spool); err != nil {
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
	k.standing = newStanding(k.store, k.admin, k.opts, k.now, k.life)
	k.ledger = ledger.New(ledger.Options{
		Store: k.store, Breaker: k.tables.usage, Life: k.life, Now: k.now, Logger: k.opts.Logger,
		Linger: k.opts.Linger, KeepDays: k.opts.KeepDays, AlwaysLinger: k.opts.Metering == MeteringBatch, Fresh: k.opts.Staleness,
	})
	k.standing.ledger = k.ledger
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
			k.ledger.Wait()
			k.life.Wait()
			k.ledger.Wait() // for what the tasks wrote
			k.standing.observeAll(ctx)
			close(done)
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
