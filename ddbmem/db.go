package ddbmem

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// DB is one DynamoDB in memory: its tables, its clock and its faults. Make one with New
// and pass its Client to NewRepository or budget.New in tests. It is safe for concurrent
// use; all its writes are in one order. The zero value is not usable.
//
// SetFaults makes requests fail, as they do in an outage. Meter counts requests and
// capacity units. WithClock sets the clock by which items expire.
type DB struct {
	engine   engine
	keepLog  bool
	expiry   bool
	counters map[string]*counter
	faults   atomic.Pointer[FaultFunc]
	requests atomic.Int64

	// late counts the late requests that have not ended, under the lock of noneLate. That is signalled when none is
	// left. A sync.WaitGroup must not grow from zero while somebody waits.
	late     int
	noneLate *sync.Cond
	closed   chan struct{}
	close    sync.Once

	logMu sync.Mutex
	log   []Entry
}

// Option changes how New makes a DB.
type Option func(*DB)

// WithClock sets the source of time: creation times, stream records, expiry, the
// ten minutes of a client request token and the Date of every answer. Defaults
// to time.Now.
func WithClock(now func() time.Time) Option { return func(db *DB) { db.engine.now = now } }

// WithLog makes a DB log all executed requests; DB.Log returns them.
func WithLog() Option { return func(db *DB) { db.keepLog = true } }

// WithExpiry makes a DB delete expired items at the start of every executed request. Without it they stay until
// ExpireNow: DynamoDB, too, may take days to delete them.
func WithExpiry() Option { return func(db *DB) { db.expiry = true } }

// WithPartitions limits the throughput of each partition key of a table, in write and read units
// a second, as DynamoDB's partitions are limited, to 1,000 and 3,000; 0 is unlimited. A key
// holds a second of unused throughput. A request is throttled if nothing is left. An
// admitted one may use more than there is, and later ones wait for it. A throttled request of
// one item gets a ThrottlingException, a transaction the reason ThrottlingError. A batch leaves
// the throttled keys and items unprocessed, and is throttled as a whole if that is all
// of it. Query is limited, too; Scan, TransactGetItems and indexes are not. Defaults to no limits.
//
// DynamoDB also has partitions that several keys share, splits busy ones, and lets
// bursts of up to five minutes' throughput pass when it can: a key may get less, or more.
func WithPartitions(writeUnits, readUnits float64) Option {
	return func(db *DB) { db.engine.partitions = newPartitions(writeUnits, readUnits) }
}

// New makes an empty DB with the options. A nil option is ignored, and a nil clock becomes time.Now.
func New(opts ...Option) *DB {
	cache, err := lru.New[expressionKey, any](expressionCache)
	if err != nil {
		panic(err) // only for a size below 1
	}
	db := &DB{
		engine:   engine{now: time.Now, expressions: cache, tables: map[string]*table{}, tokens: map[string]*transaction{}},
		counters: make(map[string]*counter, len(handlers)),
		closed:   make(chan struct{}),
		noneLate: sync.NewCond(new(sync.Mutex)),
	}
	for op := range handlers {
		db.counters[op] = &counter{}
	}
	for _, o := range opts {
		if o != nil {
			o(db)
		}
	}
	if db.engine.now == nil {
		db.engine.now = time.Now
	}
	return db
}

var errNotMade = errors.New("ddbmem: the DB was not made by New; make one with ddbmem.New()")

// isMade reports whether New made the DB.
func (db *DB) isMade() bool { return db != nil && db.engine.tables != nil }

// Wait returns when every late request (Fault.Late) has executed; their channels
// must be closed for that.
func (db *DB) Wait() {
	db.noneLate.L.Lock()
	defer db.noneLate.L.Unlock()
	for db.late > 0 {
		db.noneLate.Wait()
	}
}

// Close drops the late requests whose channels are still open and waits for the
// others. Using the DB after Close is allowed; Close twice too.
func (db *DB) Close() {
	if !db.isMade() {
		return
	}
	db.close.Do(func() { close(db.closed) })
	db.Wait()
}

// OnWrite adds a hook that is called for every committed write of an item, in the
// order of commits, while the commit lock is held: it must not call the DB. A
// write that leaves an item unchanged is reported too; deleting an absent item is
// not a write. A nil hook is ignored.
func (db *DB) OnWrite(hook func(Write)) {
	if hook == nil {
		return
	}
	db.engine.mu.Lock()
	defer db.engine.mu.Unlock()
	db.engine.hooks = append(db.engine.hooks, hook)
}

// SplitStream closes every open shard of the table's stream, as DynamoDB does after some hours and when a
// partition is split, and opens new shards in its place: children of them, at least 1, which share its keys.
// A reader must read a shard to its end before its children. It fails if the table has no enabled stream.
func (db *DB) SplitStream(table string, children int) error {
	if children < 1 || children > 1024 {
		return fmt.Errorf("ddbmem: %d children for a shard; give 1 to 1024", children)
	}
	return db.changeStream(table, func(s *stream) error {
		if !s.disabled.IsZero() {
			return fmt.Errorf("ddbmem: the stream of table %q is disabled; enable it with UpdateTable", table)
		}
		s.splitShards(db.engine.now(), children)
		return nil
	})
}

// TrimStream drops the records of the table's stream that are older than before, and the shards that closed
// before it. DynamoDB does so after a day: unread records are lost. It fails if the table has no stream.
func (db *DB) TrimStream(table string, before time.Time) error {
	return db.changeStream(table, func(s *stream) error {
		s.trim(before)
		return nil
	})
}

// changeStream calls change with the stream of a table while it holds the commit lock, and returns its error.
// It fails if the table has no stream.
func (db *DB) changeStream(table string, change func(*stream) error) error {
	if !db.isMade() {
		return errNotMade
	}
	db.engine.mu.Lock()
	defer db.engine.mu.Unlock()
	if t := db.engine.tables[table]; t != nil && t.stream != nil {
		return change(t.stream)
	}
	return fmt.Errorf("ddbmem: there is no table %q with a stream; create it with a StreamSpecification", table)
}

// ExpireNow deletes the items with a time to live before the clock's present second, in every table with time
// to live, and returns their number. Items more than five years past it stay, as in DynamoDB. Stream records of
// the deletions carry the identity of DynamoDB's own service.
func (db *DB) ExpireNow() int {
	if !db.isMade() {
		return 0
	}
	return db.engine.deleteExpired()
}
