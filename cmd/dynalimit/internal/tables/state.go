package tables

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// On says whether something is on, "unknown" where the engine or a missing permission
// does not let it be seen.
type On string

// The values of On.
const (
	Yes     On = "on"
	No      On = "off"
	Unclear On = "unknown"
)

func on(yes bool) On {
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

// State is how a table stands.
type State struct {
	Name string `json:"table"`
	// Status is DynamoDB's, such as ACTIVE; "" where there is no table.
	Status string `json:"status"`
	// Ready says that calls can be served: nothing of what was found is Wrong.
	Ready bool `json:"ready"`
	// Findings are what is not as it should be; of Check, what is as well.
	Findings []Finding  `json:"findings,omitempty"`
	ARN      string     `json:"arn,omitempty"`
	Created  *time.Time `json:"created,omitempty"`
	// Items and Bytes are DynamoDB's own count, up to six hours old.
	Items   int64   `json:"items"`
	Bytes   int64   `json:"bytes"`
	Indexes []Index `json:"indexes,omitempty"`
	// TTL is the attribute by which items expire, "" for none.
	TTL string `json:"ttl,omitempty"`
	// Stream is what the stream shows, such as NEW_AND_OLD_IMAGES, "" for none.
	Stream string `json:"stream,omitempty"`
	// Recovery is point-in-time recovery, and Earliest how far back it goes.
	Recovery On         `json:"point_in_time_recovery,omitempty"`
	Earliest *time.Time `json:"earliest_restore,omitempty"`
	// Protection is that from being deleted.
	Protection On `json:"deletion_protection,omitempty"`
	// KMSKey is the key it is encrypted under, "" for one of Amazon's.
	KMSKey string            `json:"kms_key,omitempty"`
	Tags   map[string]string `json:"tags,omitempty"`
	// Layout is the version of what is in it, "" for none and for tables of budgets.
	Layout string `json:"layout,omitempty"`
	// CompositeOnly says that no item of an older layout is looked for.
	CompositeOnly bool `json:"composite_only,omitempty"`

	// foreign says that its key is not ours.
	foreign bool
	// Refused means that the library refuses its layout: nothing can be asked of it, and no
	// command of ours completes it.
	Refused bool `json:"-"`
	// id is DynamoDB's own for the table, "" where the engine gives none.
	id string
	// failures are why something could not be read.
	failures []error
}

// There reports whether there is a table.
func (s State) There() bool { return s.Status != "" && s.Status != string(types.TableStatusDeleting) }

// describe is what a description of a table says.
func describe(name string, d *types.TableDescription) State {
	s := State{Name: name}
	if d == nil {
		return s
	}
	s.Status, s.ARN, s.Created = string(d.TableStatus), aws.ToString(d.TableArn), utc(d.CreationDateTime)
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
		s.Protection = on(*d.DeletionProtectionEnabled)
	}
	if d.SSEDescription != nil {
		s.KMSKey = aws.ToString(d.SSEDescription.KMSMasterKeyArn)
	}
	return s
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

func usable(s types.IndexStatus) bool {
	return s == types.IndexStatusActive || s == types.IndexStatusUpdating
}
