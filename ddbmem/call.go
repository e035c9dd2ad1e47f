package ddbmem

import (
	"time"

	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// call is one request being executed.
type call struct {
	*DB
	operation   string
	seq         int64
	at          time.Time
	body        []byte
	in          *wire.Reader
	out         []byte
	use         usage
	refused     int64
	capacity    string // ReturnConsumedCapacity
	unprocessed int    // how much of a batch to leave, by a fault
}

// handlers execute the operations; what they append to out is the inside of the
// answer's object.
var handlers map[string]func(*call) error

func init() {
	handlers = map[string]func(*call) error{
		"GetItem":            (*call).getItem,
		"PutItem":            func(c *call) error { return c.writeItem("PutItem", verbPut) },
		"UpdateItem":         func(c *call) error { return c.writeItem("UpdateItem", verbUpdate) },
		"DeleteItem":         func(c *call) error { return c.writeItem("DeleteItem", verbDelete) },
		"BatchGetItem":       (*call).batchGetItem,
		"BatchWriteItem":     (*call).batchWriteItem,
		"Query":              (*call).query,
		"Scan":               (*call).scan,
		"TransactWriteItems": (*call).transactWriteItems,
		"TransactGetItems":   (*call).transactGetItems,
		"CreateTable":        (*call).createTable,
		"DeleteTable":        (*call).deleteTable,
		"DescribeTable":      (*call).describeTable,
		"ListTables":         (*call).listTables,
		"UpdateTable":        (*call).updateTable,
		"ListStreams":        (*call).listStreams,
		"DescribeStream":     (*call).describeStream,
		"GetShardIterator":   (*call).getShardIterator,
		"GetRecords":         (*call).getRecords,
		"UpdateTimeToLive":   (*call).updateTimeToLive,
		"DescribeTimeToLive": (*call).describeTimeToLive,

		"UpdateContinuousBackups":   (*call).updateContinuousBackups,
		"DescribeContinuousBackups": (*call).describeContinuousBackups,
	}
}

// execute runs one request. The answer is a JSON body and an error, nil for
// success; its capacity is counted.
func (db *DB) execute(operation string, seq int64, body []byte, unprocessed int) (answer []byte, failure *Error) {
	c := &call{
		DB: db, operation: operation, seq: seq, at: db.now(), body: body, in: wire.NewReader(body),
		out: append(make([]byte, 0, 256), '{'), unprocessed: unprocessed,
	}
	if db.expiry {
		db.ExpireNow()
	}
	err := handlers[operation](c)
	db.counters[operation].add(c.use, c.refused)
	if err != nil {
		failure = asError(err).defaulted()
		c.out = failure.append(c.out[:0])
	} else {
		c.out = append(c.out, '}')
	}
	if db.keepLog {
		db.addLog(c, failure)
	}
	return c.out, failure
}

// statement reads and binds the whole body as one statement.
func (c *call) statement(kind string) (*statement, error) {
	st := readStatement(c.in, kind)
	c.in.End()
	if err := c.in.Err(); err != nil {
		return nil, err
	}
	c.capacity = st.capacity
	return st, st.bind(c.DB)
}

// appendCapacity appends ConsumedCapacity if the request asks for it.
func (c *call) appendCapacity(list, apart bool) {
	if c.capacity == "" || c.capacity == "NONE" || len(c.use) == 0 {
		return
	}
	c.out = wire.Field(c.out, "ConsumedCapacity")
	if !list {
		c.out = c.use[0].append(c.out, c.capacity == "INDEXES", apart)
		return
	}
	c.out = append(c.out, '[')
	for _, u := range c.use {
		c.out = u.append(wire.Comma(c.out), c.capacity == "INDEXES", apart)
	}
	c.out = append(c.out, ']')
}
