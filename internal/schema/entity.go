package schema

import (
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Attribute names of entity records.
const (
	attrName      = "name"
	attrParentID  = "parent_id"
	attrCascade   = "cascade"
	attrMetadata  = "metadata"
	attrPlan      = "plan"
	attrCreatedAt = "created_at"
)

// EntityAttributes are the attributes of an entity record besides its keys. No
// acquire changes them.
var EntityAttributes = []string{attrEntity, attrName, attrParentID, attrCascade, attrMetadata, attrCreatedAt, attrPlan}

// EntityRecord is what an entity's #META item says.
type EntityRecord struct {
	ID, Name, ParentID string
	Cascade            bool
	// Plan is the plan that it is on, "" for none.
	Plan      string
	Metadata  map[string]string
	CreatedAt time.Time
}

// EncodeEntity returns the item of an entity record. One with a parent is
// listed in the children index.
func (k Keys) EncodeEntity(e EntityRecord) Item {
	key := k.Meta(e.ID)
	metadata := make(Item, len(e.Metadata))
	for name, value := range e.Metadata {
		metadata[name] = String(value)
	}
	item := Item{
		PK:            String(key.PK),
		SK:            String(key.SK),
		attrEntity:    String(e.ID),
		attrName:      String(e.Name),
		attrParentID:  &types.AttributeValueMemberNULL{Value: true},
		attrCascade:   &types.AttributeValueMemberBOOL{Value: e.Cascade},
		attrMetadata:  &types.AttributeValueMemberM{Value: metadata},
		attrCreatedAt: String(e.CreatedAt.UTC().Format(time.RFC3339)),
	}
	if e.ParentID != "" {
		item[attrParentID] = String(e.ParentID)
		item[GSI1PK] = String(k.Parent(e.ParentID))
		item[GSI1SK] = String(childPrefix + e.ID)
	}
	if e.Plan != "" {
		item[attrPlan] = String(e.Plan)
	}
	return item
}

// DecodeEntity reads an entity record. What it cannot understand it leaves
// empty: nothing but the parent, the cascade and the plan matter to a limit.
func DecodeEntity(item Item) EntityRecord {
	e := EntityRecord{
		ID:       Text(item, attrEntity),
		Name:     Text(item, attrName),
		ParentID: Text(item, attrParentID),
		Plan:     Text(item, attrPlan),
		Metadata: decodeMetadata(item[attrMetadata]),
	}
	if b, ok := item[attrCascade].(*types.AttributeValueMemberBOOL); ok {
		e.Cascade = b.Value
	}
	if t, err := time.Parse(time.RFC3339, Text(item, attrCreatedAt)); err == nil {
		e.CreatedAt = t.UTC()
	}
	return e
}

// The sort keys of what an entity owns begin so.
const (
	BucketsOf = skBucketPrefix
	ConfigsOf = skConfigPrefix
)

// ConfigResource returns the resource of an entity configuration's sort key,
// false for any other item.
func ConfigResource(sk string) (string, bool) { return strings.CutPrefix(sk, skConfigPrefix) }

// HasEntity says whether an item of the children index holds the record, and
// not its keys alone.
func HasEntity(item Item) bool { return item[attrEntity] != nil }

// Child is the entity named by an item of the children index.
func Child(item Item) (string, bool) { return ChildID(Text(item, GSI1SK)) }

// decodeMetadata reads a map of strings, plain or marshalled twice: then the map
// and each value are maps of one entry, named by a type: {"M": {"team": {"S":
// "search"}}}.
func decodeMetadata(v types.AttributeValue) map[string]string {
	m, ok := v.(*types.AttributeValueMemberM)
	if !ok {
		return nil
	}
	values := m.Value
	if inner, ok := values["M"].(*types.AttributeValueMemberM); ok && len(values) == 1 && allMaps(inner.Value) {
		values = inner.Value
	}
	if len(values) == 0 {
		return nil
	}
	out := make(map[string]string, len(values))
	for name, value := range values {
		if s, ok := metadataText(value); ok {
			out[name] = s
		}
	}
	return out
}

// allMaps says whether each value is a map, as in metadata marshalled twice.
func allMaps(values Item) bool {
	for _, v := range values {
		if _, ok := v.(*types.AttributeValueMemberM); !ok {
			return false
		}
	}
	return true
}

func metadataText(v types.AttributeValue) (string, bool) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value, true
	case *types.AttributeValueMemberN:
		return v.Value, true
	case *types.AttributeValueMemberBOOL:
		return strconv.FormatBool(v.Value), true
	case *types.AttributeValueMemberM:
		if len(v.Value) != 1 {
			return "", false
		}
		for kind, inner := range v.Value {
			if kind == "S" || kind == "N" || kind == "BOOL" {
				return metadataText(inner)
			}
		}
	}
	return "", false
}
