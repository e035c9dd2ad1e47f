package ddbmem

import (
	"time"

	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// call is one request being executed.
type call struct {
	db          *engine
	operation   string
	seq         int64
	at          time.Time
	body        []byte
	in          *wire.Reader
	out         []byte
	use         usage
	refused     int64
	throttled   int64
	capacity    string // ReturnConsumedCapacity
	unprocessed int    // how much of a batch to leave, by a fault
}

// appendCapacity appends ConsumedCapacity to c.out if the request asks for it and something was charged. With
// list it is an array with an entry for each table, else the object of the first table. With apart it also
// shows read and write units separately.
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
