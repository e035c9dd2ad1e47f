package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/trail"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// Kind is the kind of a line.
type Kind string

// The kinds.
const (
	// Audit is an administrative change.
	Audit Kind = "audit"
	// Usage is the usage of an entity in a window.
	Usage Kind = "usage"
	// Total is a sum over the entities of a resource, on a plan, or below a parent.
	Total Kind = "total"
)

// Line is one expired item. Its JSON has the names given here, and leaves out fields that are
// documented as empty.
type Line struct {
	// EventID is the id of the record in the table's stream: lines with equal ids are of
	// the same record.
	EventID string `json:"event_id"`
	// Kind is the kind of the line.
	Kind Kind `json:"kind"`
	// Namespace is the item's; empty for none.
	Namespace string `json:"namespace"`
	// Of is the type of the usage's owner: "entity", "resource", "plan" or "children"; empty for a
	// change.
	Of string `json:"of,omitempty"`
	// ID is the entity, resource, plan or parent; of a change its target, such as an
	// entity's id, "$SYSTEM" or "$RESOURCE:gpt-4".
	ID string `json:"id"`
	// Resource is the used resource, or the changed part of the target; it may be
	// empty for a change.
	Resource string `json:"resource,omitempty"`
	// Window is how long usage is summed over; empty for a change.
	Window aggregator.Window `json:"window,omitempty"`
	// Time is where the window begins, or when the change was made, in UTC.
	Time time.Time `json:"time"`
	// Expired is when DynamoDB deleted the item, to the second, in UTC.
	Expired time.Time `json:"expired"`
	// Limits are the counts of each limit by its name; empty for a change, and for an item
	// with unreadable counters.
	Limits map[string]Counts `json:"limits,omitempty"`
	// Item is the whole item with the names of the table, as plain JSON: sets are lists, and
	// bytes are base64.
	Item json.RawMessage `json:"item"`
}

// Counts are the counts of one limit. Its JSON leaves out all fields but Consumed if they are 0.
type Counts struct {
	// Consumed is the consumption less give-backs, in millitokens.
	Consumed int64 `json:"consumed"`
	// Passed is the part of Consumed that a level above the entity counted too, in millitokens.
	Passed int64 `json:"passed,omitempty"`
	// Unrecorded is the part of Consumed without a record, in millitokens.
	Unrecorded int64 `json:"unrecorded,omitempty"`
	// Unseen is the number of unseen ends of the counter.
	Unseen int64 `json:"unseen,omitempty"`
}

var windows = map[schema.UsageWindow]aggregator.Window{
	schema.UsageHourly: aggregator.Hour, schema.UsageDaily: aggregator.Day, schema.UsageMonthly: aggregator.Month,
}

// lineOf converts a record of an expired item to a line. It returns false for a record that the archive
// ignores, such as one that did not expire. It returns an error for a record that a line cannot hold.
func lineOf(r aggregator.Record) (line Line, ok bool, err error) {
	if !r.Expired {
		return Line{}, false, nil
	}
	key := schema.KeyOf(r.Keys)
	for _, read := range []func(schema.Key, schema.Item) (Line, bool){auditLine, usageLine} {
		if line, ok = read(key, r.Old); ok {
			break
		}
	}
	switch {
	case !ok:
		return Line{}, false, nil
	case len(r.Old) == 0:
		return Line{}, true, fmt.Errorf("record %s has no old image: the stream needs the view NEW_AND_OLD_IMAGES", r.EventID)
	}
	line.EventID, line.Expired = r.EventID, r.Time.UTC()
	if line.Time.IsZero() {
		line.Time = line.Expired
	}
	if !isWritable(line.Time) || !isWritable(line.Expired) {
		return Line{}, true, errors.New("record " + r.EventID + " has a time that is not in the years 0 to 9999")
	}
	if line.Item = schema.ToJSON(&types.AttributeValueMemberM{Value: r.Old}); line.Item == nil {
		return Line{}, true, errors.New("record " + r.EventID + " has an item that JSON cannot hold")
	}
	return line, true, nil
}

// isWritable reports whether a time is in the years 0 to 9999, which JSON can hold.
func isWritable(at time.Time) bool { return at.Year() >= 0 && at.Year() <= 9999 }

// auditLine returns the line of an expired audit event. It returns false for any other item.
func auditLine(key schema.Key, item schema.Item) (Line, bool) {
	keys, rest := schema.SplitNamespace(key.PK)
	if !(trail.Layout{}).HasEvent(schema.Key{PK: rest, SK: key.SK}) {
		return Line{}, false
	}
	e := trail.Decode(item)
	return Line{
		Kind: Audit, Namespace: keys.Name(), ID: strings.TrimPrefix(rest, (trail.Layout{}).Partition("")), Resource: e.Resource, Time: e.Time,
	}, true
}

// usageLine returns the line of an expired snapshot or sum. It returns false for any other item,
// and for usage that earlier versions counted for failed logins.
func usageLine(key schema.Key, item schema.Item) (Line, bool) {
	keys, s, start, ok := schema.UsageSeriesOf(key)
	if !ok || s.Kind == schema.UsageOfEntity && schema.FormerlyOwn(s.ID, s.Resource) {
		return Line{}, false
	}
	line := Line{Kind: Total, Namespace: keys.Name(), Of: string(s.Kind), ID: s.ID, Resource: s.Resource, Window: windows[s.Window], Time: start}
	if s.Kind == schema.UsageOfEntity {
		line.Kind = Usage
	}
	if line.Kind == Usage && s.Window == schema.UsageHourly {
		line.Limits = countsOfHour(item)
	} else {
		line.Limits = countsOfSum(item)
	}
	return line, true
}

// countsOfHour returns the counts of a snapshot by limit, in millitokens; nil if the item cannot be decoded.
func countsOfHour(item schema.Item) map[string]Counts {
	u, err := schema.DecodeUsage(item)
	if err != nil {
		return nil
	}
	sum := usage.NewTally()
	usage.AddSnapshot(&sum, &u)
	return countsOf(&sum)
}

// countsOfSum returns the counts of a stored sum by limit, in millitokens; nil if the item cannot be decoded.
func countsOfSum(item schema.Item) map[string]Counts {
	s, err := schema.DecodeUsageSum(item)
	if err != nil {
		return nil
	}
	return countsOf(&s)
}

// countsOf returns the counts of a sum by limit, in millitokens. The amounts that a level above counted too are
// in Passed, not under a name of their own; counters by model are left out.
func countsOf(s *schema.UsageSum) map[string]Counts {
	of := map[string]Counts{}
	for _, names := range []map[string]int64{s.Net, s.Unrecorded, s.Unseen} {
		for name := range names {
			if schema.IsLimit(name) {
				of[name] = Counts{s.Net[name], s.Net[schema.PassedOn(name)], s.Unrecorded[name], s.Unseen[name]}
			}
		}
	}
	return of
}

// folder returns the folder of the line's file, without its date, such as audit, usage/hour or total/plan/day.
func (l Line) folder() string {
	switch l.Kind {
	case Audit:
		return string(Audit)
	case Total:
		return string(Total) + "/" + l.Of + "/" + string(l.Window)
	default:
		return string(l.Kind) + "/" + string(l.Window)
	}
}
