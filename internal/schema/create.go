package schema

import (
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/bucket"
)

// Create is a new bucket item.
type Create struct {
	Keys             Keys
	Entity, Resource string
	Refilled         int64
	// Fingerprint is nil for a bucket that comes from another layout: the first write
	// brings the configuration.
	Fingerprint []byte
	ConfigRead  int64
	TTL         int64
	Limits      []Change
	OpID        []byte
	// Money is the part about limits of money; nil without one.
	Money *Money
}

// CreateCondition is the condition that nothing has the key.
const CreateCondition = "attribute_not_exists(" + PK + ")"

// attribute is one attribute of an item.
type attribute struct {
	name  string
	value types.AttributeValue
}

// attributes returns the attributes of the new item, except for its key, in the order of the update. The id
// of the create fills every op slot and becomes the item's incarnation. A late write to an earlier bucket
// under this key then does not find its own id.
func (c *Create) attributes() []attribute {
	as := make([]attribute, 0, 12+6*len(c.Limits))
	set := func(name string, value types.AttributeValue) { as = append(as, attribute{name, value}) }
	for _, slot := range opAttrs {
		set(slot, Bytes(c.OpID))
	}
	set(attrIncarnation, Bytes(c.OpID))
	set(attrRefilled, Number(c.Refilled))
	if c.Fingerprint != nil {
		set(attrFingerprint, Bytes(c.Fingerprint))
		set(attrConfigRead, Number(c.ConfigRead))
	}
	if c.TTL > 0 {
		set(TTL, Number(c.TTL))
	}
	set(attrEntity, String(c.Entity))
	set(attrResource, String(c.Resource))
	set(GSI2PK, String(c.Keys.Resource(c.Resource)))
	set(GSI2SK, String(BucketEntries+c.Entity))
	for i := range c.Limits {
		l := &c.Limits[i]
		if l.Slots != nil {
			a := slotsAttrs(l.Name)
			set(a.tokens, Number(l.Put))
			set(a.burst, Number(l.To.Rate.Burst))
			for _, e := range l.Slots.Changes() {
				set(a.epoch(e.End), Number(e.Add))
			}
			continue
		}
		a, rate := attrsOf(l.Name, l.Quota), l.To.Rate
		set(a.tokens, Number(l.Put))
		set(a.consumed, Number(l.Consumed))
		if l.Passed != 0 && l.Quota {
			set(a.passed, Number(l.Passed))
		}
		if l.Quota {
			set(a.burst, Number(rate.Burst))
			set(a.window, Number(l.Window.Ordinal()))
			set(a.windows, String(rate.Windows().String()))
			continue
		}
		set(a.capacity, Number(l.To.Capacity))
		set(a.burst, Number(rate.Burst))
		set(a.amount, Number(rate.Amount))
		set(a.period, Number(rate.Period))
		if l.Passed != 0 {
			set(a.passed, Number(l.Passed))
		}
	}
	if c.Money != nil {
		c.Money.attributes(set)
	}
	return as
}

// Item returns the item that the create makes, with its key.
func (c *Create) Item() Item {
	_, item := c.Statement()
	return item
}

// Statement returns the update that makes the item, unless it exists, and the item itself. It is an update
// rather than a put, because an update names each attribute that it writes. A policy can then tell a bucket
// from limits, which have the same partition key.
func (c *Create) Statement() (Statement, Item) {
	attributes := c.attributes()
	item := c.Keys.Bucket(c.Entity, c.Resource).Attributes()
	names, values := make(map[string]string, len(attributes)+1), make(Item, len(attributes))
	set := make([]string, len(attributes))
	for i, a := range attributes {
		place := strconv.Itoa(i)
		set[i] = "#" + place + " = :" + place
		names["#"+place], values[":"+place], item[a.name] = a.name, a.value, a.value
	}
	key := "#" + strconv.Itoa(len(attributes))
	names[key] = PK
	return Statement{Update: "SET " + strings.Join(set, ", "), Condition: "attribute_not_exists(" + key + ")", Names: names, Values: values}, item
}

// Created returns the shared LimitSet of the limits that a create writes, and makes it if it is new.
func (r *LimitSets) Created(c *Create) *LimitSet {
	names, quotas, inFlight := make([]string, len(c.Limits)), []string(nil), []string(nil)
	for i := range c.Limits {
		if names[i] = c.Limits[i].Name; c.Limits[i].Quota {
			quotas = append(quotas, names[i])
		}
		if c.Limits[i].Slots != nil {
			inFlight = append(inFlight, names[i])
		}
	}
	return r.OfKinds(names, quotas, inFlight...)
}

// NewLimit returns the change that adds a limit with the given parameters, tokens and first counter value, in
// millitokens. A limit of calls in flight gets no counter. The caller sets the window of a quota.
func NewLimit(to *Limit, tokens, consumed int64) Change {
	c := Change{Name: to.Name, Quota: to.Rate.IsQuota(), Kind: AddLimit, Update: bucket.Update{Full: true, Put: tokens}, Consumed: consumed, To: to}
	if to.Rate.Period == 0 { // slots
		c.Slots, c.Consumed = &bucket.Moves{}, 0
	}
	return c
}
