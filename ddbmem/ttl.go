package ddbmem

import (
	"math"
	"strconv"

	"github.com/dynalimit/dynalimit/ddbmem/internal/wire"
)

// staleExpiry is the oldest time to live at which an item still expires:
// DynamoDB keeps items with a time of more than five years ago.
const staleExpiry = 5 * 365 * 24 * 3600

// readTimeToLive reads an UpdateTimeToLive: the table's name, the attribute and whether to enable it. It fails
// without a specification that names an attribute, and for other members.
func readTimeToLive(r *wire.Reader) (name, attribute string, enabled bool, err error) {
	specified := false
	r.Object(func(member string) {
		switch member {
		case "TableName":
			name = readTableName(r)
		case "TimeToLiveSpecification":
			specified = true
			r.Object(func(m string) {
				switch m {
				case "AttributeName":
					attribute = r.String()
				case "Enabled":
					enabled = r.Bool()
				default:
					r.Fail(unsupportedError(m))
				}
			})
		default:
			r.Fail(unsupportedError(member))
		}
	})
	if err := r.Err(); err != nil {
		return "", "", false, err
	}
	return name, attribute, enabled, requireMember(specified && attribute != "", "timeToLiveSpecification")
}

// updateTimeToLive turns a table's time to live on or off under the commit lock and appends the new state. It
// fails if that is its state already, if disabling names another attribute, or if the table does not exist.
func (c *call) updateTimeToLive() error {
	name, attribute, enabled, err := readTimeToLive(c.in)
	if err != nil {
		return err
	}
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	t, err := c.db.lookup(name)
	switch {
	case err != nil:
		return err
	case enabled && t.ttl != "":
		return validationError("TimeToLive is already enabled")
	case !enabled && t.ttl == "":
		return validationError("TimeToLive is already disabled")
	case !enabled && t.ttl != attribute:
		return validationError("TimeToLive is active on a different AttributeName: current AttributeName is %s", t.ttl)
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

// describeTimeToLive appends a table's time-to-live status and, if enabled, its attribute. It fails if the
// table does not exist.
func (c *call) describeTimeToLive() error {
	name, err := readSoleTableName(c.in, c.operation)
	if err != nil {
		return err
	}
	c.db.mu.RLock()
	defer c.db.mu.RUnlock()
	t, err := c.db.lookup(name)
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

// deleteExpired deletes the expired items of all tables, as one commit under the commit lock, and returns their
// number. Streams and hooks see each deletion as an expiry.
func (e *engine) deleteExpired() int {
	now := e.now().Unix()
	e.mu.Lock()
	defer e.mu.Unlock()
	var expired []*change
	for _, name := range e.tableNames() {
		if t := e.tables[name]; t.ttl != "" && t.soonest < now {
			expired = append(expired, t.findExpired(now)...)
		}
	}
	e.commit(0, expired...)
	return len(expired)
}

// findExpired returns deletions of the items that expire before the Unix second now, without making them. It
// leaves out items more than five years past their expiry. It sets t.soonest to the next expiry; the commit
// lock must be held for writing.
func (t *table) findExpired(now int64) []*change {
	var expired []*change
	t.soonest = math.MaxInt64
	for _, p := range t.orderedPartitions() {
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
