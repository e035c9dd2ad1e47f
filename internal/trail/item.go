package trail

import (
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Attribute names of events, those of the source's.
const (
	attrID        = "event_id"
	attrTime      = "timestamp"
	attrPrincipal = "principal"
	attrAction    = "action"
	attrTarget    = "entity_id"
	attrResource  = "resource"
	attrReason    = "reason"
	attrDetails   = "details"

	detailChanges, detailBefore, detailAfter = "changes", "before", "after"
)

// IndexShards is over how many partitions of the index the events of a day are spread.
const IndexShards = 8

const (
	partition  = "AUDIT#"
	sortPrefix = "#AUDIT#"
)

// Layout says where events lie in a table.
type Layout struct {
	// Prefix begins each partition key: the namespace's; empty for none.
	Prefix string
	// TTL is the attribute by which items expire; empty: events are kept for ever.
	TTL string
	// Retention is how long events are kept; 0 and less: for ever.
	Retention time.Duration
	// Indexed lists events by day and principal in the index GSI2.
	Indexed bool
}

// Partition returns the partition key of a target's events.
func (l Layout) Partition(target string) string { return l.Prefix + partition + target }

// SortPrefix begins the sort key of each event; the event's id follows.
const SortPrefix = sortPrefix

// HasEvent reports whether a key is that of an event in this layout. The index also lists other items that name
// its partition.
func (l Layout) HasEvent(key schema.Key) bool {
	return strings.HasPrefix(key.PK, l.Prefix+partition) && strings.HasPrefix(key.SK, SortPrefix)
}

// Day returns the partition key of the index for the events of one day in UTC, by the principals of one shard.
func (l Layout) Day(t time.Time, shard int) string {
	return l.Prefix + partition + t.UTC().Format(time.DateOnly) + "#" + strconv.Itoa(shard)
}

// ShardOf returns the shard of a principal's events in the index, from 0 to IndexShards-1.
func ShardOf(principal string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(principal)) // never fails
	return int(h.Sum32() % IndexShards)
}

// indexSort returns the sort key of an event in the index: its id, which sorts by time, and its principal.
// Readers find one principal's events by it without reading the rest.
func indexSort(e audit.Event) string { return e.ID + "#" + e.Principal }

// IndexedPrincipal returns the principal in a sort key of the index; "" if it has none.
func IndexedPrincipal(sort string) string {
	_, principal, _ := strings.Cut(sort, "#")
	return principal
}

// Item returns the event as an item in this layout. It has an expiry if the layout has a TTL attribute and a
// retention, and index keys if the layout is Indexed.
func (l Layout) Item(e audit.Event) schema.Item {
	item := schema.Item{
		schema.PK:     schema.String(l.Partition(e.Target)),
		schema.SK:     schema.String(sortPrefix + e.ID),
		attrID:        schema.String(e.ID),
		attrTime:      schema.String(e.Time.UTC().Format(time.RFC3339)),
		attrAction:    schema.String(e.Action),
		attrTarget:    schema.String(e.Target),
		attrPrincipal: textOrNull(e.Principal),
		attrResource:  textOrNull(e.Resource),
		attrDetails:   encodeChanges(e.Changes),
	}
	if e.Reason != "" {
		item[attrReason] = schema.String(e.Reason)
	}
	if l.TTL != "" && l.Retention > 0 {
		item[l.TTL] = schema.Number(e.Time.Add(l.Retention).Unix())
	}
	if l.Indexed {
		item[schema.GSI2PK] = schema.String(l.Day(e.Time, ShardOf(e.Principal)))
		item[schema.GSI2SK] = schema.String(indexSort(e))
	}
	return item
}

// textOrNull returns a text as a DynamoDB attribute, or NULL for "".
func textOrNull(s string) types.AttributeValue {
	if s == "" {
		return &types.AttributeValueMemberNULL{Value: true}
	}
	return schema.String(s)
}

// encodeChanges returns the changes as one DynamoDB map attribute: each field with its states before and after.
// An absent state is left out.
func encodeChanges(changes []audit.Change) types.AttributeValue {
	fields := make(schema.Item, len(changes))
	for _, c := range changes {
		states := schema.Item{}
		if c.Before != nil {
			states[detailBefore] = schema.FromJSON(c.Before)
		}
		if c.After != nil {
			states[detailAfter] = schema.FromJSON(c.After)
		}
		fields[c.Field] = &types.AttributeValueMemberM{Value: states}
	}
	return &types.AttributeValueMemberM{Value: schema.Item{detailChanges: &types.AttributeValueMemberM{Value: fields}}}
}

// Decode reads an event and leaves malformed parts empty. The time is exact to the millisecond if the id is
// valid. Details in another tool's form become changes without a state before.
func Decode(item schema.Item) audit.Event {
	e := audit.Event{
		ID: schema.Text(item, attrID), Principal: schema.Text(item, attrPrincipal), Action: schema.Text(item, attrAction),
		Target: schema.Text(item, attrTarget), Resource: schema.Text(item, attrResource), Reason: schema.Text(item, attrReason), Changes: changesIn(item[attrDetails]),
	}
	if t, ok := TimeOf(e.ID); ok {
		e.Time = t
	} else if t, err := time.Parse(time.RFC3339, schema.Text(item, attrTime)); err == nil {
		e.Time = t.UTC()
	}
	return e
}

// changesIn decodes the details of an event, ordered by field. Details in another tool's form
// become changes without a state before. It returns nil for anything but a map.
func changesIn(v types.AttributeValue) []audit.Change {
	m, ok := v.(*types.AttributeValueMemberM)
	if !ok {
		return nil
	}
	ours, ok := m.Value[detailChanges].(*types.AttributeValueMemberM)
	if !ok || len(m.Value) != 1 {
		return changesOf(m.Value, func(v types.AttributeValue) (c audit.Change) {
			c.After = schema.ToJSON(v)
			return c
		})
	}
	return changesOf(ours.Value, func(v types.AttributeValue) (c audit.Change) {
		if states, ok := v.(*types.AttributeValueMemberM); ok {
			c.Before, c.After = schema.ToJSON(states.Value[detailBefore]), schema.ToJSON(states.Value[detailAfter])
		}
		return c
	})
}

// changesOf returns a change for each field, sorted by name; change converts the field's value.
func changesOf(fields schema.Item, change func(types.AttributeValue) audit.Change) []audit.Change {
	changes := make([]audit.Change, 0, len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		c := change(fields[name])
		c.Field = name
		changes = append(changes, c)
	}
	return changes
}
