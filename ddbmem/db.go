package ddbmem

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	lru "github.com/hashicorp/golang-lru/v2"
)

// expressionCache is how many parsed expressions a DB keeps.
const expressionCache = 1024

// DB is one DynamoDB in memory: its tables, its clock and its faults. Make one with New
// and pass its Client to NewRepository or budget.New in tests. It is safe for concurrent
// use; all its writes are in one order. The zero value is not usable.
//
// SetFaults makes requests fail, as they do in an outage. Meter counts requests and
// capacity units. WithClock sets the clock by which items expire.
type DB struct {
	now         func() time.Time
	keepLog     bool
	expiry      bool
	expressions *lru.Cache[expressionKey, any]
	counters    map[string]*counter
	faults      atomic.Pointer[FaultFunc]
	requests    atomic.Int64

	late   sync.WaitGroup
	closed chan struct{}
	close  sync.Once

	mu                    sync.RWMutex // the commit lock
	tables                map[string]*table
	writes                int64
	lastTable, lastStream int64
	hooks                 []func(Write)
	tokens                map[string]*transaction
	streams               []*stream

	logMu sync.Mutex
	log   []Entry
}

// Option changes how New makes a DB.
type Option func(*DB)

// WithClock sets the source of time: creation times, stream records, expiry, the
// ten minutes of a client request token and the Date of every answer. Defaults
// to time.Now.
func WithClock(now func() time.Time) Option { return func(db *DB) { db.now = now } }

// WithLog keeps a log of all requests, see DB.Log.
func WithLog() Option { return func(db *DB) { db.keepLog = true } }

// WithExpiry deletes expired items at the start of every request. Without it they
// stay until ExpireNow: DynamoDB, too, may take days to delete them.
func WithExpiry() Option { return func(db *DB) { db.expiry = true } }

// New makes an empty DB.
func New(opts ...Option) *DB {
	cache, err := lru.New[expressionKey, any](expressionCache)
	if err != nil {
		panic(err) // only for a size below 1
	}
	db := &DB{
		now:         time.Now,
		expressions: cache,
		counters:    make(map[string]*counter, len(handlers)),
		closed:      make(chan struct{}),
		tables:      map[string]*table{},
		tokens:      map[string]*transaction{},
	}
	for op := range handlers {
		db.counters[op] = &counter{}
	}
	for _, o := range opts {
		if o != nil {
			o(db)
		}
	}
	if db.now == nil {
		db.now = time.Now
	}
	return db
}

var errNotMade = errors.New("ddbmem: the DB was not made by New; make one with ddbmem.New()")

// made reports whether New made the DB.
func (db *DB) made() bool { return db != nil && db.tables != nil }

// Wait returns when every late request (Fault.Late) has executed; their channels
// must be closed for that.
func (db *DB) Wait() { db.late.Wait() }

// Close drops the late requests whose channels are still open and waits for the
// others. Using the DB after Close is allowed; Close twice too.
func (db *DB) Close() {
	if !db.made() {
		return
	}
	db.close.Do(func() { close(db.closed) })
	db.late.Wait()
}

// Write is one committed change of an item.
type Write struct {
	// Seq numbers the writes of a DB from 1.
	Seq int64
	// Time is the DB's clock at the commit.
	Time time.Time
	// Operation is the API call, such as "UpdateItem", or "" for an expiry.
	Operation string
	// Table is the table of the item.
	Table string
	// RequestSeq is the Seq of the Request that wrote, 0 for an expiry.
	RequestSeq int64
	// Old and New are the item before and after, nil when absent. Do not change
	// them.
	Old, New map[string]types.AttributeValue
	// Expired tells a deletion by time to live.
	Expired bool
}

// OnWrite adds a hook that is called for every committed write of an item, in the
// order of commits, while the commit lock is held: it must not call the DB. A
// write that leaves an item as it was is reported too; deleting an absent item is
// not a write. A nil hook is none.
func (db *DB) OnWrite(hook func(Write)) {
	if hook == nil {
		return
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.hooks = append(db.hooks, hook)
}
