package ddbmem

import (
	"math"
	"strconv"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// staleExpiry is how far back a time to live may lie for an item still to expire:
// DynamoDB leaves items alone whose time is more than five years past.
const staleExpiry = 5 * 365 * 24 * 3600

// readTimeToLive reads the table's name and the TimeToLiveSpecification.
func (c *call) readTimeToLive() (name, attribute string, enabled bool, err error) {
	specified := false
	c.in.Object(func(member string) {
		switch member {
		case "TableName":
			name = tableName(c.in)
		case "TimeToLiveSpecification":
			specified = true
			c.in.Object(func(m string) {
				switch m {
				case "AttributeName":
					attribute = c.in.String()
				case "Enabled":
					enabled = c.in.Bool()
				default:
					c.in.Fail(unsupported(m))
				}
			})
		default:
			c.in.Fail(unsupported(member))
		}
	})
	if err := c.in.Err(); err != nil {
		return "", "", false, err
	}
	return name, attribute, enabled, required(specified && attribute != "", "timeToLiveSpecification")
}

func (c *call) updateTimeToLive() error {
	name, attribute, enabled, err := c.readTimeToLive()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t, err := c.lookup(name)
	switch {
	case err != nil:
		return err
	case enabled && t.ttl != "":
		return validation("TimeToLive is already enabled")
	case !enabled && t.ttl == "":
		return validation("TimeToLive is already disabled")
	case !enabled && t.ttl != attribute:
		return validation("TimeToLive is active on a different AttributeName: current AttributeName is %s", t.ttl)
	}
	t.ttl, t.soonest = "", math.MinInt64
	if enabled {
		t.ttl = attribute
	}
	c.out = append(wire.Field(c.out, "TimeToLiveSpecification"), '{')
	c.out = strconv.AppendBool(wire.Field(c.out, "Enabled"), enabled)
	c.out = append(wire.AppendString(wire.Field(c.out, "AttributeName"), attribute), '}')
	return nil
}

func (c *call) describeTimeToLive() error {
	name, err := c.onlyTableName()
	if err != nil {
		return err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	t, err := c.lookup(name)
	if err != nil {
		return err
	}
	status := "DISABLED"
	c.out = append(wire.Field(c.out, "TimeToLiveDescription"), '{')
	if t.ttl != "" {
		status = "ENABLED"
		c.out = wire.AppendString(wire.Field(c.out, "AttributeName"), t.ttl)
	}
	c.out = append(wire.AppendString(wire.Field(c.out, "TimeToLiveStatus"), status), '}')
	return nil
}

// ExpireNow deletes the items whose time to live is before the clock's present
// second, in every table that has one, and returns their number. Their stream
// records carry the identity of DynamoDB's own service.
func (db *DB) ExpireNow() int {
	if !db.made() {
		return 0
	}
	now := db.now().Unix()
	db.mu.Lock()
	defer db.mu.Unlock()
	var expired []*change
	for _, name := range db.tableNames() {
		if t := db.tables[name]; t.ttl != "" && t.soonest < now {
			expired = append(expired, t.expire(now)...)
		}
	}
	db.commit(0, expired...)
	return len(expired)
}

// expire finds the items that expire, in the order of a scan.
func (t *table) expire(now int64) []*change {
	var expired []*change
	t.soonest = math.MaxInt64
	for _, p := range t.ordered() {
		for _, r := range p.rows {
			at, ok := r.expires(t)
			switch {
			case !ok || at < now-staleExpiry:
			case at < now:
				expired = append(expired, &change{table: t, key: r.key, old: r, expired: true})
			default:
				t.soonest = min(t.soonest, at)
			}
		}
	}
	return expired
}

// expires is the second after which the item expires; ok is false if it never
// does.
func (r *row) expires(t *table) (at int64, ok bool) {
	if t.ttl == "" {
		return 0, false
	}
	n, ok := r.item[t.ttl].(value.Number)
	if !ok {
		return 0, false
	}
	return n.Int64()
}
