package tables

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// On is the state of a setting: "unknown" if the engine or a missing permission hides it.
type On string

// The values of On.
const (
	Yes     On = "on"
	No      On = "off"
	Unclear On = "unknown"
)

// onIf returns a setting as Yes if it is on, else as No.
func onIf(yes bool) On {
	if yes {
		return Yes
	}
	return No
}

// Index is a global secondary index of a table.
type Index struct {
	Name   string `json:"name"`
	Status string `json:"status"`
}

// State is the state of a table.
type State struct {
	Name string `json:"table"`
	// Status is DynamoDB's status, such as ACTIVE; "" if the table does not exist.
	Status string `json:"status"`
	// Ready is true if calls can be served: no finding is Wrong.
	Ready bool `json:"ready"`
	// Findings are the faults; those of Check include the results without a fault.
	Findings []Finding  `json:"findings,omitempty"`
	ARN      string     `json:"arn,omitempty"`
	Created  *time.Time `json:"created,omitempty"`
	// Items and Bytes are DynamoDB's counts, up to six hours old.
	Items   int64   `json:"items"`
	Bytes   int64   `json:"bytes"`
	Indexes []Index `json:"indexes,omitempty"`
	// TTL is the attribute with the expiry of items, or "".
	TTL string `json:"ttl,omitempty"`
	// Stream is the view type of the stream, such as NEW_AND_OLD_IMAGES, or "".
	Stream string `json:"stream,omitempty"`
	// Recovery is point-in-time recovery, and Earliest the earliest restorable time.
	Recovery On         `json:"point_in_time_recovery,omitempty"`
	Earliest *time.Time `json:"earliest_restore,omitempty"`
	// Protection is deletion protection.
	Protection On `json:"deletion_protection,omitempty"`
	// KMSKey is the encryption key, or "" for one of Amazon's.
	KMSKey string            `json:"kms_key,omitempty"`
	Tags   map[string]string `json:"tags,omitempty"`
	// Layout is the version of the layout, or "" without one and for tables of budgets.
	Layout string `json:"layout,omitempty"`
	// CompositeOnly is true if the library does not look for items of an older layout.
	CompositeOnly bool `json:"composite_only,omitempty"`

	// foreign is true if the key is not ours.
	foreign bool
	// Refused is true if the library refuses the layout: then no request is possible, and no
	// command of ours completes the table.
	Refused bool `json:"-"`
	// id is DynamoDB's id of the table, or "" if the engine has none.
	id string
	// failures are the read errors.
	failures []error
}

// Exists reports whether the table exists and is not being deleted.
func (s State) Exists() bool { return s.Status != "" && s.Status != string(types.TableStatusDeleting) }

// describeState converts DynamoDB's description of the table name to a State, without a request. Settings that
// need other requests, such as TTL, recovery and tags, stay empty. A nil description gives the state of a
// missing table.
func describeState(name string, d *types.TableDescription) State {
	s := State{Name: name}
	if d == nil {
		return s
	}
	s.Status, s.ARN, s.Created = string(d.TableStatus), aws.ToString(d.TableArn), inUTC(d.CreationDateTime)
	s.id = aws.ToString(d.TableId)
	s.Items, s.Bytes = aws.ToInt64(d.ItemCount), aws.ToInt64(d.TableSizeBytes)
	for _, x := range d.GlobalSecondaryIndexes {
		s.Indexes = append(s.Indexes, Index{aws.ToString(x.IndexName), string(x.IndexStatus)})
	}
	if d.StreamSpecification != nil {
		s.Stream = string(d.StreamSpecification.StreamViewType)
	}
	s.Protection = Unclear
	if d.DeletionProtectionEnabled != nil {
		s.Protection = onIf(*d.DeletionProtectionEnabled)
	}
	if d.SSEDescription != nil {
		s.KMSKey = aws.ToString(d.SSEDescription.KMSMasterKeyArn)
	}
	return s
}

// inUTC returns a time in UTC, or nil for nil.
func inUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// isUsable reports whether queries on an index of this status work.
func isUsable(s types.IndexStatus) bool {
	return s == types.IndexStatusActive || s == types.IndexStatusUpdating
}
