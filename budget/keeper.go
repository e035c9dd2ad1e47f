package budget

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

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
	boards  struct {
		sync.Mutex
		byScope *lru.Cache[string, *board]
	}
	views *lru.Cache[string, *view]
	lanes lanes

	abandoned abandonedHolds
	spool     *spool

	base    context.Context // of writes: outlives a caller, ends with Close
	cancel  context.CancelFunc
	closing chan struct{}
	closed  sync.Once
	tasks   running

	closers     chan struct{} // see closeBehind
	closingDays running       // for tests
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
		clock:   ddb.NewClock(opts.Now, *opts.CorrectClock),
		opts:    opts,
		own:     priceLayers{{"options", optionBook}, {"catalog", catalogBook}},
		closing: make(chan struct{}),
		closers: make(chan struct{}, maxClosers),
	}
	k.connect(client, tables)
	k.base, k.cancel = context.WithCancel(context.Background())
	k.lanes.open = map[string]*lane{}
	k.tenants = newTenants(k)
	k.boards.byScope, _ = lru.New[string, *board](cacheEntries) // fails only for a size below 1
	k.views, _ = lru.New[string, *view](cacheEntries)
	if opts.Spool != "" {
		if k.spool, err = openSpool(opts.Spool); err != nil {
			return nil, err
		}
		k.tasks.Add(1)
		go k.replayLoop()
	}
	return k, nil
}

func (k *Keeper) now() time.Time { return k.clock.Now() }

// Close waits until everything accepted is written and every event found is
// delivered, or ctx ends. Calls made afterwards fail with ErrClosed.
func (k *Keeper) Close(ctx context.Context) error {
	var err error
	k.closed.Do(func() {
		k.lanes.mu.Lock()
		k.lanes.closed = true
		k.lanes.mu.Unlock()
		close(k.closing)
		done := make(chan struct{})
		k.stopTimers()
		go func() {
			k.lanes.running.Wait()
			k.tasks.Wait()
			k.lanes.running.Wait() // of what the tasks wrote
			k.observeAll(ctx)
			close(done)
		}()
		select {
		case <-done:
		case <-ctx.Done():
			err = ctx.Err()
			k.cancel()
			<-done
		}
		k.cancel()
		k.breaker.Stop()
		k.control.Stop()
		if k.spool != nil {
			err = errors.Join(err, k.spool.close())
		}
	})
	return err
}

func (k *Keeper) isClosed() bool {
	select {
	case <-k.closing:
		return true
	default:
		return false
	}
}
