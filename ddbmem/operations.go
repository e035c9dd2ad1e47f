package ddbmem

import "github.com/dynalimit/dynalimit/ddbmem/internal/wire"

// handlers execute the operations. They append the members of the answer's object to
// out.
var handlers map[string]func(*call) error

// init fills handlers with one function for each supported operation.
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

// execute runs one request and returns its JSON body and the API's error, nil for success. With WithExpiry it
// first deletes expired items; afterwards it meters the request and logs it under WithLog. unprocessed is the
// Fault's.
func (db *DB) execute(operation string, seq int64, body []byte, unprocessed int) (answer []byte, failure *Error) {
	c := &call{
		db: &db.engine, operation: operation, seq: seq, at: db.engine.now(), body: body, in: wire.NewReader(body),
		out: append(make([]byte, 0, 256), '{'), unprocessed: unprocessed,
	}
	if db.expiry {
		db.ExpireNow()
	}
	err := handlers[operation](c)
	db.counters[operation].add(c.use, c.refused, c.throttled)
	if err != nil {
		failure = asError(err).withDefaults()
		c.out = failure.append(c.out[:0])
	} else {
		c.out = append(c.out, '}')
	}
	if db.keepLog {
		db.addLog(c, failure)
	}
	return c.out, failure
}
