package ddbmem

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	lru "github.com/hashicorp/golang-lru/v2"
)

// expressionCache is how many parsed expressions an engine keeps.
const expressionCache = 1024

// engine executes requests: it has the tables and their streams, under one lock.
type engine struct {
	now         func() time.Time
	expressions *lru.Cache[expressionKey, any]
	partitions  *partitions // nil: without limits

	mu                    sync.RWMutex // the commit lock
	tables                map[string]*table
	writes                int64
	lastTable, lastStream int64
	hooks                 []func(Write)
	tokens                map[string]*transaction
	streams               []*stream
}

// transaction is a committed transaction remembered for its client request token.
type transaction struct {
	fingerprint [sha256.Size]byte
	at          time.Time
}

type expressionKey struct {
	kind byte
	text string
}

// parseCached returns the parsed expression of text from the cache, or parses it and adds it to the cache.
// The byte kind separates conditions, updates and projections of equal text. Errors are not cached.
func parseCached[T any](db *engine, kind byte, text string, parse func(string) (T, error)) (T, error) {
	key := expressionKey{kind, text}
	if e, ok := db.expressions.Get(key); ok {
		return e.(T), nil
	}
	e, err := parse(text)
	if err == nil {
		db.expressions.Add(key, e)
	}
	return e, err
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

// lookup returns the table with a name. It fails if the name is empty or the table does not exist. The commit
// lock must be held for reading.
func (e *engine) lookup(name string) (*table, error) {
	if err := requireMember(name != "", "tableName"); err != nil {
		return nil, err
	}
	t := e.tables[name]
	if t == nil {
		return nil, errNoResource
	}
	return t, nil
}

// tableNames returns the names of all tables, sorted.
func (e *engine) tableNames() []string {
	names := make([]string, 0, len(e.tables))
	for name := range e.tables {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// lastTableName returns the table name that sorts last, "" without tables.
func (e *engine) lastTableName() string {
	last := ""
	for name := range e.tables {
		last = max(last, name)
	}
	return last
}

// openStream gives t a new enabled stream with one open shard, a unique label and the given view type. Sequence
// numbers continue those of the table's last stream, which stays readable. The commit lock must be held.
func (e *engine) openStream(t *table, view string) {
	e.lastStream++
	s := &stream{table: t.name, keys: t.keySchema, view: view, created: e.now(), next: firstSequence}
	if t.stream != nil {
		s.next = t.stream.next
	}
	// The number tells streams apart that were opened in the same millisecond.
	s.label = s.created.UTC().Format("2006-01-02T15:04:05.000") + fmt.Sprintf("%03d", e.lastStream%1000)
	s.openShard(s.created, nil, everyHash)
	t.stream = s
	e.streams = append(e.streams, s)
}

// commit applies the changes in order, records them in the tables' enabled streams, and calls the hooks of
// OnWrite. It skips a delete of an absent item. request is the request's number for the hooks; the commit lock
// must be held.
func (e *engine) commit(request int64, changes ...*change) {
	at := e.now()
	for _, ch := range changes {
		if ch.old == nil && ch.new == nil {
			continue
		}
		now := ch.apply()
		if s := ch.table.stream; s != nil && s.disabled.IsZero() {
			s.recordChange(at, ch)
		}
		e.writes++
		if len(e.hooks) == 0 {
			continue
		}
		w := Write{
			Seq: e.writes, Time: at, Operation: ch.operation, Table: ch.table.name, RequestSeq: request,
			Old: ch.old.attributes(), New: now.attributes(), Expired: ch.expired,
		}
		for _, hook := range e.hooks {
			hook(w)
		}
	}
}
