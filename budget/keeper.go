package budget

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dynalimit/dynalimit/internal/ddb"
)

// Tables names the two tables.
type Tables struct {
	Control string // configuration, overrides, prices. Defaults to "control"
	Usage   string // counters, records, holds, events. Defaults to "usage"
}

// Metering says how surely a record is counted once. Whatever it is, hard mode
// and Hold.Settle count strictly. The two that do not keep records cannot be
// combined with a spool: it would count a record again whose answer was lost.
type Metering int

// The meterings.
const (
	// MeteringStrict counts a record once, however often it is sent within 49
	// hours. Records of one process share a transaction when they queue up.
	MeteringStrict Metering = iota
	// MeteringBatch is as strict and always waits Options.Linger for company:
	// fewer write units, later answers.
	MeteringBatch
	// MeteringWindow counts a record once within ten minutes of its first
	// sending, by the request token alone. Usage.Time must be set.
	MeteringWindow
	// MeteringNone counts a record each time it is sent; one whose answer was
	// lost is not sent again.
	MeteringNone
)

// Policy says what to do when the store does not answer.
type Policy int

// The policies.
const (
	// PolicyDefault is Allow for Recommend, Refuse for Reserve, and for Submit
	// Allow when there is a spool, else Refuse.
	PolicyDefault Policy = iota
	// Refuse returns an *UnavailableError.
	Refuse
	// Allow answers from what is known: Recommend with the last plan, marked
	// Stale; Reserve with a Hold that holds nothing, marked Degraded; Submit by
	// keeping the record in the spool, marked Spooled.
	Allow
)

// OnUnavailable is the policy per operation.
type OnUnavailable struct {
	// Recommend defaults to Allow, Reserve to Refuse, and Submit to Allow when
	// there is a spool, else to Refuse.
	Recommend, Reserve, Submit Policy
}

// Options of a Keeper. The zero value is fine.
type Options struct {
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
	// CorrectClock estimates the offset to DynamoDB's clock from the Date of its
	// answers and corrects for it when it exceeds a second, so that processes
	// agree on when a lease or a day ends. Defaults to on with the default Now, off
	// with a Now of your own.
	CorrectClock *bool
	// Models gives a label its model id where the organisation's configuration
	// does not. Defaults to none.
	Models map[string]string
	// Prices come before the embedded Catalog, and after prices stored with
	// PutPrices. Defaults to none.
	Prices []Price
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
	// Timeout bounds what one call waits for the store, reads and tries together.
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
	// OnEvent is told of thresholds and changes of label, on the goroutine of
	// the call that found them. Every event is delivered at least once, by one
	// of the processes that have the hook; Event.ID is stable.
	OnEvent func(context.Context, Event)
	// Spool is the path of a local append-only file that keeps records the store
	// did not take, until it does: while it does not answer, and also while
	// credentials, permissions or tables are missing. One keeper per file:
	// another gets ErrSpoolInUse, by a lock on the file Spool + ".lock". A record
	// is replayed for up to 48 hours after it was received, and counted once.
	// Needs MeteringStrict or MeteringBatch. Empty: none.
	Spool string
	// SpoolInterval is how often the spool is replayed. Defaults to 5 s.
	SpoolInterval time.Duration
	// OnRefused is given every spooled record that was refused for good, one at a
	// time; it also stays in the file Spool + ".refused". A line that cannot be
	// read comes as a record with nothing but a Refusal.
	OnRefused func(SpooledUsage, error)
	// Logger gets what no caller is told. Defaults to discarding.
	Logger *slog.Logger
}

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
	o.Staleness = cmp.Or(o.Staleness, 5*time.Second)
	o.ConfigTTL = cmp.Or(o.ConfigTTL, 30*time.Second)
	o.Timeout = cmp.Or(o.Timeout, 2*time.Second)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, time.Second)
	o.Linger = cmp.Or(o.Linger, 40*time.Millisecond)
	o.SpoolInterval = cmp.Or(o.SpoolInterval, 5*time.Second)
	o.OnUnavailable.Recommend = cmp.Or(o.OnUnavailable.Recommend, Allow)
	o.OnUnavailable.Reserve = cmp.Or(o.OnUnavailable.Reserve, Refuse)
	if o.OnUnavailable.Submit == PolicyDefault {
		o.OnUnavailable.Submit = Refuse
		if o.Spool != "" {
			o.OnUnavailable.Submit = Allow
		}
	}
	return o
}

func (o Options) validate() error {
	if err := o.validDurations(); err != nil {
		return err
	}
	switch {
	case o.Metering < MeteringStrict || o.Metering > MeteringNone:
		return invalid("options.metering", "is %d; give MeteringStrict, MeteringBatch, MeteringWindow or MeteringNone", o.Metering)
	case o.Spool != "" && (o.Metering == MeteringWindow || o.Metering == MeteringNone):
		return invalid("options.metering", "MeteringWindow and MeteringNone keep no record by which the spool could tell "+
			"what was counted already; use MeteringStrict or MeteringBatch, or leave Options.Spool empty")
	case o.OnUnavailable.Submit == Allow && o.Spool == "":
		return invalid("options.on_unavailable.submit", "Allow needs Options.Spool, or records would be lost")
	}
	for label, model := range o.Models {
		if !namePattern.MatchString(label) || model == "" {
			return invalid("options.models."+label, "%q is not a model id for a label", model)
		}
	}
	return nil
}

func (o Options) validDurations() error {
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"staleness", o.Staleness}, {"config_ttl", o.ConfigTTL}, {"linger", o.Linger},
		{"spool_interval", o.SpoolInterval}, {"request_timeout", o.RequestTimeout}, {"timeout", o.Timeout},
	} {
		if d.value < 0 {
			return invalid("options."+d.field, "is %v; give a positive duration, or 0 for the default", d.value)
		}
	}
	return nil
}

// Keeper chooses labels and meters calls. It is safe for concurrent use.
type Keeper struct {
	store   *store
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

// newID is a random UUID, used for tokens, holds and as the mark of a writer.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return uuidOf(b)
}

func uuidOf(b [16]byte) string {
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

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

// CreateTables creates the two tables, on-demand and with TTL on ttl_epoch, and
// waits until they can be used. Tables that exist are left as they are.
func (k *Keeper) CreateTables(ctx context.Context) error {
	for _, name := range []string{k.store.tables.Control, k.store.tables.Usage} {
		_, err := k.store.client.CreateTable(ctx, &dynamodb.CreateTableInput{
			TableName:   &name,
			BillingMode: types.BillingModePayPerRequest,
			KeySchema: []types.KeySchemaElement{
				{AttributeName: aws.String("PK"), KeyType: types.KeyTypeHash},
				{AttributeName: aws.String("SK"), KeyType: types.KeyTypeRange},
			},
			AttributeDefinitions: []types.AttributeDefinition{
				{AttributeName: aws.String("PK"), AttributeType: types.ScalarAttributeTypeS},
				{AttributeName: aws.String("SK"), AttributeType: types.ScalarAttributeTypeS},
			},
		})
		var exists *types.ResourceInUseException
		if err != nil && !errors.As(err, &exists) {
			return failure("CreateTables", err)
		}
		waiter := dynamodb.NewTableExistsWaiter(k.store.client)
		if err := waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &name}, time.Minute); err != nil {
			return failure("CreateTables", err)
		}
		if err := k.enableTTL(ctx, name); err != nil {
			return failure("CreateTables", err)
		}
	}
	return nil
}

func (k *Keeper) enableTTL(ctx context.Context, name string) error {
	out, err := k.store.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err != nil {
		return err
	}
	if d := out.TimeToLiveDescription; d != nil &&
		(d.TimeToLiveStatus == types.TimeToLiveStatusEnabled || d.TimeToLiveStatus == types.TimeToLiveStatusEnabling) {
		return nil
	}
	_, err = k.store.client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: &name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{
			AttributeName: aws.String(attrTTL), Enabled: aws.Bool(true),
		},
	})
	return err
}
