package budget

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dynalimit/dynalimit/budget/internal/background"
	"github.com/dynalimit/dynalimit/budget/internal/ledger"
	"github.com/dynalimit/dynalimit/budget/internal/store"
	"github.com/dynalimit/dynalimit/internal/ddb"
)

// Keeper chooses labels and meters calls. It is safe for concurrent use.
type Keeper struct {
	client  Client // of the tables themselves
	store   *store.Store
	clock   *ddb.Clock
	breaker *ddb.Breaker // of the usage table
	control *ddb.Breaker // of the control table
	opts    Options
	own     priceLayers // options and catalog

	tenants *tenants
	ledger  *ledger.Ledger
	views   *lru.Cache[string, *view]
	watches struct {
		sync.Mutex
		byScope *lru.Cache[string, *watch]
	}

	spool  *spool
	life   *background.Life
	closed sync.Once
}

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
	if client == nil {
		return nil, invalid("client", "is nil; pass dynamodb.NewFromConfig(cfg), or ddbmem.New().Client() in tests")
	}
	if err := opts.validate(); err != nil {
		return nil, err
	}
	tables.Control = cmp.Or(tables.Control, "control")
	tables.Usage = cmp.Or(tables.Usage, "usage")
	optionBook, err := newPriceBook(opts.Prices)
	if err != nil {
		return nil, err
	}
	catalogBook, err := newPriceBook(Catalog())
	if err != nil {
		return nil, err
	}
	k := &Keeper{
		clock: ddb.NewClock(opts.Now, *opts.CorrectClock),
		opts:  opts,
		own:   priceLayers{{"options", optionBook}, {"catalog", catalogBook}},
		life:  background.New(),
	}
	k.connect(client, tables)
	k.tenants = newTenants(k)
	k.ledger = ledger.New(k.ledgerOptions())
	k.watches.byScope, _ = lru.New[string, *watch](cacheEntries) // fails only for a size below 1
	k.views, _ = lru.New[string, *view](cacheEntries)
	if opts.Spool != "" {
		if k.spool, err = openSpool(opts.Spool); err != nil {
			return nil, err
		}
		k.life.Begin(false)
		go k.replayLoop()
	}
	return k, nil
}

func (k *Keeper) ledgerOptions() ledger.Options {
	o := ledger.Options{
		Store: k.store, Breaker: k.breaker, Life: k.life, Now: k.now, Logger: k.opts.Logger,
		Linger: k.opts.Linger, AlwaysLinger: k.opts.Metering == MeteringBatch, Fresh: k.opts.Staleness, Settled: k.opts.ConfigTTL,
		Apps: k.appIDs,
	}
	if k.opts.OnEvent != nil {
		o.Wrote = k.wrote
	}
	return o
}

func (k *Keeper) now() time.Time { return k.clock.Now() }

// Close waits until everything accepted is written and every event found is
// delivered, or ctx ends. Calls made afterwards fail with ErrClosed.
func (k *Keeper) Close(ctx context.Context) error {
	var err error
	k.closed.Do(func() {
		k.ledger.Close()
		k.life.Close()
		done := make(chan struct{})
		k.stopTimers()
		go func() {
			k.ledger.Wait()
			k.life.Wait()
			k.ledger.Wait() // for what the tasks wrote
			k.observeAll(ctx)
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
		k.breaker.Stop()
		k.control.Stop()
		if k.spool != nil {
			err = errors.Join(err, k.spool.close())
		}
	})
	return err
}
