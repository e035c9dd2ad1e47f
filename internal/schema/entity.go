package schema

import (
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Attribute names of entity records.
const (
	AttrName      = "name"
	AttrParentID  = "parent_id"
	AttrCascade   = "cascade"
	AttrMetadata  = "metadata"
	AttrCreatedAt = "created_at"
)

// EntityRecord is what an entity's #META item says.
type EntityRecord struct {
	ID, Name, ParentID string
	Cascade            bool
	Metadata           map[string]string
	CreatedAt          time.Time
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
		attrEntity:  String(e.ID),
		AttrName:      String(e.Name),
		AttrParentID:  &types.AttributeValueMemberNULL{Value: true},
		AttrCascade:   &types.AttributeValueMemberBOOL{Value: e.Cascade},
		AttrMetadata:  &types.AttributeValueMemberM{Value: metadata},
		AttrCreatedAt: String(e.CreatedAt.UTC().Format(time.RFC3339)),
	}
	if e.ParentID != "" {
		item[AttrParentID] = String(e.ParentID)
		item[GSI1PK] = String(k.Parent(e.ParentID))
		item[GSI1SK] = String(childPrefix + e.ID)
	}
	return item
}

// DecodeEntity reads an entity record. What it cannot understand it leaves
// empty: nothing but the parent and the cascade matter to a limit.
func DecodeEntity(item Item) EntityRecord {
	e := EntityRecord{
		ID:       text(item, attrEntity),
		Name:     text(item, AttrName),
		ParentID: text(item, AttrParentID),
		Metadata: decodeMetadata(item[AttrMetadata]),
	}
	if b, ok := item[AttrCascade].(*types.AttributeValueMemberBOOL); ok {
		e.Cascade = b.Value
	}
	if t, err := time.Parse(time.RFC3339, text(item, AttrCreatedAt)); err == nil {
		e.CreatedAt = t.UTC()
	}
	return e
}

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
