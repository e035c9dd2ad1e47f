package schema

import (
	"encoding/json"
	"hash/fnv"
	"maps"
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
	attrCounts    = "parent_counts"
	attrCreatedAt = "created_at"
	attrVersion   = "version"
	attrDeleting  = "deleting"
	attrAdoptions = "adoptions"
)

// EntityAttributes are the attributes of an entity record, apart from its keys, that the children index has.
// No acquire changes them.
var EntityAttributes = []string{
	attrEntity, attrName, attrParentID, attrCascade, attrMetadata, attrCreatedAt, attrPlan, attrMetadataText, attrVersion, attrDeleting,
	attrManagedBy, attrCounts,
}

// EntityShards is the number of partitions of an index over which the list of entities is spread.
const EntityShards = 16

// EntityRecord is the content of an entity's #META item.
type EntityRecord struct {
	ID, Name, ParentID string
	// Cascade means that all sources of the parent count, also those of resource and system.
	Cascade bool
	// Detached means that the parent's limits do not count, or that the entity has no parent and
	// no call may give it one.
	Detached bool
	// Plan is the plan of the entity; "" without one.
	Plan string
	// ManagedBy names the tool that manages the record; "" without one.
	ManagedBy string
	// Metadata is JSON. It may be nil.
	Metadata  json.RawMessage
	CreatedAt time.Time
	// Version counts the changes of the record; 0 when it has no version.
	Version int64
	// Deleting marks an entity in deletion.
	Deleting bool
}

// Entities returns the partition key of one shard of the index that lists the records of entities.
func (k Keys) Entities(shard int) string { return k.prefix + "ENTITIES#" + strconv.Itoa(shard) }

// EntityShard returns the shard in which an entity is listed, 0 to EntityShards-1. It depends on the id alone.
func EntityShard(id string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // never fails
	return int(h.Sum32() % EntityShards)
}

// Item returns the item of an entity record, listed among all entities. With a parent it is listed among its
// children, and without one, after its first child, among the top entities. It keeps unknown attributes and the
// creation time of old; old may be nil.
func (e EntityRecord) Item(k Keys, old Item) Item {
	key := k.Meta(e.ID)
	item := make(Item, len(old)+13)
	maps.Copy(item, old)
	for _, name := range []string{GSI1PK, GSI1SK, attrPlan, attrMetadataText, attrDeleting} {
		delete(item, name)
	}
	item[PK], item[SK] = String(key.PK), String(key.SK)
	item[GSI3PK], item[GSI3SK] = String(k.Entities(EntityShard(e.ID))), String(e.ID)
	item[attrEntity], item[attrName] = String(e.ID), String(e.Name)
	item[attrParentID], item[attrManagedBy] = &types.AttributeValueMemberNULL{Value: true}, &types.AttributeValueMemberNULL{Value: true}
	item[attrCascade] = &types.AttributeValueMemberBOOL{Value: e.Cascade}
	delete(item, attrCounts)
	switch {
	case e.CountsByOwn():
		item[attrCounts] = String(e.ParentID)
	case e.Detached:
		item[attrCounts] = String(noParent)
	}
	item[attrMetadata] = metadataMap(e.Metadata)
	if old[attrCreatedAt] == nil {
		item[attrCreatedAt] = String(e.CreatedAt.UTC().Format(time.RFC3339))
	}
	item[attrVersion] = Number(e.Version)
	if e.ParentID != "" {
		item[attrParentID] = String(e.ParentID)
	}
	if e.ParentID != "" || old[attrAdoptions] != nil {
		item[GSI1PK], item[GSI1SK] = String(k.Parent(e.ParentID)), String(childPrefix+e.ID)
	}
	if len(e.Metadata) > 0 {
		item[attrMetadataText] = String(string(e.Metadata))
	}
	if e.ManagedBy != "" {
		item[attrManagedBy] = String(e.ManagedBy)
	}
	if e.Plan != "" {
		item[attrPlan] = String(e.Plan)
	}
	if e.Deleting {
		item[attrDeleting] = &types.AttributeValueMemberBOOL{Value: true}
	}
	return item
}

// noParent is the value of attrCounts for an entity that must not have a parent. It is not a valid id. Other
// values are the id of the parent that counts. A writer that does not know the attribute and changes the
// parent thus detaches the new one, as intended.
const noParent = "-"

// Counts reports whether calls charge the parent: the record names one and is not detached.
func (e *EntityRecord) Counts() bool { return e.ParentID != "" && !e.Detached }

// CountsByOwn reports whether calls charge the parent only by the sources made for it or for its plan.
func (e *EntityRecord) CountsByOwn() bool { return e.Counts() && !e.Cascade }

// Unattached reports whether a record has a parent without saying whether it counts. Another tool or an
// earlier version wrote it.
func Unattached(record Item) bool {
	e := DecodeLink(record)
	return e.ParentID != "" && e.Detached && Text(record, attrCounts) != noParent
}

// DecodeEntity reads an entity record. It leaves malformed parts empty, because only the parent, the cascade
// and the plan matter for limits. An unreadable deletion mark counts as set.
func DecodeEntity(item Item) EntityRecord {
	e := DecodeLink(item)
	e.ID, e.Name, e.Metadata = Text(item, attrEntity), Text(item, attrName), decodeMetadata(item)
	e.ManagedBy = Text(item, attrManagedBy)
	e.Version, _ = (&decoder{item: item}).number(attrVersion)
	if t, err := time.Parse(time.RFC3339, Text(item, attrCreatedAt)); err == nil {
		e.CreatedAt = t.UTC()
	}
	return e
}

// DecodeLink reads only the parent, plan, cascade, detachment and deletion mark of an entity record. An
// unreadable deletion mark counts as set; other malformed parts are empty or false.
func DecodeLink(item Item) EntityRecord {
	e := EntityRecord{ParentID: Text(item, attrParentID), Plan: Text(item, attrPlan)}
	e.Cascade, _ = readMark(item, attrCascade)
	counts := Text(item, attrCounts)
	e.Detached = !e.Cascade && (counts == noParent || e.ParentID != "" && counts != e.ParentID) // an older writer may set cascade later
	deleting, err := readMark(item, attrDeleting)
	e.Deleting = deleting || err != nil
	return e
}

// EntityUnchanged returns the condition that an entity's record still has the version and creation time of old,
// and got no new child meanwhile. A nil old requires that there is no record.
func EntityUnchanged(old Item) Statement {
	b := newStatementBuilder()
	b.recordIs(old, attrVersion, attrCreatedAt, attrAdoptions)
	return b.build()
}

// LinkUnchanged returns the condition that an entity's record still has the version and the parent of old. A
// nil old requires that there is no record.
func LinkUnchanged(old Item) Statement {
	b := newStatementBuilder()
	b.recordIs(old, attrVersion, attrParentID)
	return b.build()
}

// Adopt returns LinkUnchanged together with the update that counts a new child of the record. It lists a record
// without a parent among the top entities.
func Adopt(old Item) Statement {
	b := newStatementBuilder()
	b.recordIs(old, attrVersion, attrParentID)
	if k, _, id, ok := splitPartition(KeyOf(old).PK); ok && Text(old, attrParentID) == "" && old[GSI1PK] == nil {
		b.setValue(GSI1PK, String(k.Parent("")))
		b.setValue(GSI1SK, String(childPrefix+id))
	}
	b.addNumber(attrAdoptions, 1)
	return b.build()
}

// AdoptNew sets the count of children in the item of a new record to 1, in place, because one transaction makes
// the record and its child. It lists a record without a parent among the top entities.
func AdoptNew(item Item) {
	item[attrAdoptions] = Number(1)
	if k, _, id, ok := splitPartition(KeyOf(item).PK); ok && item[GSI1PK] == nil {
		item[GSI1PK], item[GSI1SK] = String(k.Parent("")), String(childPrefix+id)
	}
}

// recordIs adds to the statement the condition that the named attributes of a record equal those of old; one
// that old lacks must be absent. A nil old requires that the record is absent.
func (b *statementBuilder) recordIs(old Item, attrs ...string) {
	if old == nil {
		b.requireAbsent(PK)
		return
	}
	b.requireExists(PK)
	for _, attr := range attrs {
		if v := old[attr]; v != nil {
			b.requireCompare(attr, "=", v)
		} else {
			b.requireAbsent(attr)
		}
	}
}

// Listed reports whether an item is a record that is listed among all entities and has a version. A record by
// another tool has neither.
func Listed(item Item) bool { return item[GSI3PK] != nil && item[attrVersion] != nil }

// UnlistedRecord is the condition of a scan for records that are not listed, such as those of another tool,
// with its values.
const UnlistedRecord = "(#0 = :meta AND attribute_not_exists(" + GSI3PK + "))"

// UnlistedValue returns the value that UnlistedRecord compares with, and its name.
func UnlistedValue() (name string, value types.AttributeValue) { return ":meta", String(skMeta) }

// ListRecord returns the key of an entity's record and the update that lists it, unless it is listed already.
// It returns false for any other item. A record without a version gets its first.
func ListRecord(item Item) (Key, Statement, bool) {
	key := KeyOf(item)
	k, kind, id, known := splitPartition(key.PK)
	if !known || kind != "ENTITY#" || key.SK != skMeta || EntityRule.Check(id) != "" {
		return Key{}, Statement{}, false
	}
	b := newStatementBuilder()
	b.setValue(GSI3PK, String(k.Entities(EntityShard(id))))
	b.setValue(GSI3SK, String(id))
	if item[attrVersion] == nil {
		b.setValue(attrVersion, Number(1))
		b.requireAbsent(attrVersion)
	}
	b.requireExists(PK)
	b.requireAbsent(GSI3PK)
	return key, b.build(), true
}

// ListedEntity returns the id of the entity of an item of the index that lists all entities; "" if the item
// lacks the index's key.
func ListedEntity(item Item) string { return Text(item, GSI3SK) }

// No character of an id sorts before belowIDs or after aboveIDs.
const belowIDs, aboveIDs = "!", "~"

// EntityRange returns the range of sort keys of the ids that begin with prefix and sort after another id, in
// the index that lists all entities. after may be "".
func EntityRange(prefix, after string) (from, to string) {
	from, to = prefix+belowIDs, prefix+aboveIDs
	if after >= prefix && after != "" {
		from = after + belowIDs
	} else if prefix != "" {
		from = prefix
	}
	return from, to
}

// ChildRange is EntityRange for the ids in a partition of the children index.
func ChildRange(after string) (from, to string) {
	from, to = EntityRange("", after)
	return childPrefix + from, childPrefix + to
}

// OwnedRange returns the range of sort keys of an entity's buckets, configurations and record. Usage and the
// results of operations lie outside, except for those between them.
func OwnedRange() (from, to string) { return skBucketPrefix, skMeta }

// The sort keys of an entity's items begin with these.
const (
	BucketsOf = skBucketPrefix
	ConfigsOf = skConfigPrefix
)

// ConfigResource returns the resource in the sort key of an entity's configuration, DefaultResource for the
// entity's default. It returns false for any other item.
func ConfigResource(sk string) (string, bool) { return strings.CutPrefix(sk, skConfigPrefix) }

// BucketResource returns the resource in a bucket's sort key. It returns false for any other item, also for a
// bucket of the older layout.
func BucketResource(sk string) (string, bool) {
	resource, ok := strings.CutPrefix(sk, skBucketPrefix)
	return resource, ok && resource != "" && !strings.Contains(resource, "#")
}

// BucketOwner returns the entity and the resource of a bucket's key; ok is false for any
// other key, and for one outside the namespace.
func (k Keys) BucketOwner(key Key) (entity, resource string, ok bool) {
	entity, inside := strings.CutPrefix(key.PK, k.Entity(""))
	resource, ok = BucketResource(key.SK)
	return entity, resource, ok && inside && entity != ""
}

// HasEntity reports whether an item of the children index has the whole record. An index made by another tool
// or an earlier version projects less. A record written by one of them looks the same, and so does one with a
// parent that does not count.
func HasEntity(item Item) bool {
	link := DecodeLink(item)
	said := item[attrCounts] != nil || link.ParentID == "" || link.Cascade
	return item[attrEntity] != nil && item[attrVersion] != nil && item[attrManagedBy] != nil && said
}

// Child returns the id of the entity of an item of the children index; false for any other item.
func Child(item Item) (string, bool) { return ChildID(Text(item, GSI1SK)) }

// SameEntity reports whether two reads of an entity's record have the same version, deletion mark and creation
// time. An absent record is nil, and two absent records are the same.
func SameEntity(item, before Item) bool {
	if item == nil || before == nil {
		return item == nil && before == nil
	}
	x, y := DecodeEntity(item), DecodeEntity(before)
	return x.Version == y.Version && x.Deleting == y.Deleting && Text(item, attrCreatedAt) == Text(before, attrCreatedAt)
}
