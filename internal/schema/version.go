package schema

import (
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Attribute names of the version record.
const (
	attrSchemaVersion = "schema_version"
	attrClientMin     = "client_min_version"
	attrLambdaVersion = "lambda_version"
	attrUpdatedAt     = "updated_at"
	attrUpdatedBy     = "updated_by"
	// attrCompositeOnly is the marker that no item of the layout before composite items
	// is left.
	attrCompositeOnly = "composite_only"
)

// The generations of kinds of limits: 0 are token buckets alone. A client refuses a table that
// asks for a later one than it knows.
const (
	// GroupKinds is the generation that charges the groups of a resource.
	GroupKinds = 1
	// QuotaKinds is the generation that knows calendar quotas.
	QuotaKinds = 2
	// LevelKinds is the generation that knows the marks of levels (those that extend, blocks with
	// exceptions, unlimited ones that are counted), and parents that count by their own levels.
	LevelKinds = 3
	// KnownKinds is the generation that this version knows.
	KnownKinds = LevelKinds
)

// VersionRecord says which layout a table has. There is one for the whole table.
type VersionRecord struct {
	// Schema is the version of the layout, ClientMin the oldest client that can use it,
	// and Lambda the version of zae-limiter's deployed aggregator, "" for none.
	Schema, ClientMin, Lambda string
	// CompositeOnly means that no item of the layout before composite items is left.
	CompositeOnly bool
	// KindsMin is the least generation of kinds of limits that a client has to know; 0 if
	// there are token buckets only.
	KindsMin int64
	// UpdatedBy names the writer, and UpdatedAt says when it wrote.
	UpdatedBy string
	UpdatedAt time.Time
}

// VersionKey is the key of the version record: one for the table, whatever the namespace.
func VersionKey() Key { return Key{"SYSTEM#", skVersion} }

// LaterVersionKey is where zae-limiter keeps its version record from 0.10 on, with its buckets
// under keys that begin with a namespace.
func LaterVersionKey() Key { return Key{"_/SYSTEM#", skVersion} }

// Item returns the version item.
func (v VersionRecord) Item() Item {
	item := VersionKey().Attributes()
	item[attrSchemaVersion] = String(v.Schema)
	item[attrClientMin] = String(v.ClientMin)
	item[attrUpdatedAt] = String(v.UpdatedAt.UTC().Format(time.RFC3339))
	item[attrUpdatedBy] = String(v.UpdatedBy)
	if v.KindsMin > 0 {
		item[attrKindsMin] = Number(v.KindsMin)
	}
	if v.CompositeOnly {
		item[attrCompositeOnly] = &types.AttributeValueMemberBOOL{Value: true}
	}
	return item
}

// DecodeVersion reads a version item, whose attributes writers before 0.6 keep in a map.
// ok is false for none.
func DecodeVersion(item Item) (v VersionRecord, ok bool) {
	if len(item) == 0 {
		return VersionRecord{}, false
	}
	marked, _ := item[attrCompositeOnly].(*types.AttributeValueMemberBOOL)
	least := kindsMin(item)
	if nested, isMap := item[attrNested].(*types.AttributeValueMemberM); isMap {
		item = nested.Value
	}
	v = VersionRecord{
		Schema: Text(item, attrSchemaVersion), ClientMin: Text(item, attrClientMin), Lambda: Text(item, attrLambdaVersion),
		CompositeOnly: marked != nil && marked.Value, KindsMin: least, UpdatedBy: Text(item, attrUpdatedBy),
	}
	if t, err := time.Parse(time.RFC3339, Text(item, attrUpdatedAt)); err == nil {
		v.UpdatedAt = t.UTC()
	}
	return v, true
}

// MarkNew is the update by which a record that the writer wrote says what is true of a new table:
// no item of the layout before composite items is there, and no client of an older version.
func MarkNew(writer string) Statement {
	b := newStatementBuilder()
	b.setValue(attrCompositeOnly, &types.AttributeValueMemberBOOL{Value: true})
	b.setValue(attrKindsMin, Number(KnownKinds))
	b.compare(attrUpdatedBy, "=", String(writer))
	return b.build()
}

// RaiseKinds is the update of the version record by which clients have to know a generation of
// kinds, if there is one that asks for less.
func RaiseKinds(generation int64) Statement {
	b := newStatementBuilder()
	b.exists(PK)
	b.setValue(attrKindsMin, Number(generation))
	known := b.name(attrKindsMin)
	b.require("(attribute_not_exists(" + known + ") OR " + known + " < " + b.value(Number(generation)) + ")")
	return b.build()
}

// Standing is how the layout of a table stands to that of a client.
type Standing uint8

const (
	// Current is the client's own layout, but for additions that it need not know.
	Current Standing = iota
	// Missing means that the table has no version record.
	Missing
	// Older is a layout before the client's.
	Older
	// Newer is a layout after the client's, of the same major version.
	Newer
	// Incompatible is a layout of a newer major version, or one whose version cannot be
	// read.
	Incompatible
	// ClientTooOld means that the record asks for a newer client, by its version or by the
	// kinds of limits that it has to know.
	ClientTooOld
)

// Standing compares the record with the layout that a client has and with the client's
// own version.
func (v VersionRecord) Standing(layout, client string) Standing {
	theirs, readable := parseVersion(v.Schema)
	ours, _ := parseVersion(layout)
	clientVersion, _ := parseVersion(client)
	if least, ok := parseVersion(v.ClientMin); ok && clientVersion.before(least) || v.KindsMin > KnownKinds {
		return ClientTooOld
	}
	switch {
	case v.Schema == "":
		return Missing
	case !readable:
		return Incompatible
	case v.beforeComposite(theirs):
		return Older
	case theirs[0] > ours[0]:
		return Incompatible
	case theirs.before(ours):
		return Older
	case theirs[0] == ours[0] && theirs[1] > ours[1]:
		return Newer
	}
	return Current
}

// beforeComposite recognises the tables of zae-limiter 0.1 to 0.6: their layout is 1.0.0,
// and only 0.7, with composite items, began again at its own version.
func (v VersionRecord) beforeComposite(schema versionNumber) bool {
	if schema != (versionNumber{1, 0, 0}) {
		return false
	}
	_, by, _ := strings.Cut(v.UpdatedBy, ":") // client:0.6.1, cli:0.6.1
	for _, text := range []string{by, v.Lambda} {
		if writer, ok := parseVersion(text); ok && writer.before(versionNumber{0, 7, 0}) {
			return true
		}
	}
	return false
}

// versionNumber is major, minor and patch.
type versionNumber [3]int

func (n versionNumber) before(other versionNumber) bool {
	for i := range n {
		if n[i] != other[i] {
			return n[i] < other[i]
		}
	}
	return false
}

// parseVersion reads 1.2.3, v1.2, 1.2.3-rc1 and 0.1.0.dev123+gabcdef: what follows the
// three numbers does not count.
func parseVersion(s string) (n versionNumber, ok bool) {
	s = strings.TrimPrefix(s, "v")
	if i := strings.IndexAny(s, "-+"); i >= 0 {
		s = s[:i]
	}
	for i, part := range strings.SplitN(s, ".", 4) {
		if i == len(n) {
			break
		}
		number, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return versionNumber{}, false
		}
		n[i] = int(number)
	}
	return n, true
}

// MarkedVersion is the version item with the marker, and the condition that old, which it
// takes the place of, is as it was read; nil for none. A layout that is older than the
// client's is the client's from then on.
func MarkedVersion(old Item, layout, client, writer string, now time.Time) (Item, Statement) {
	record, _ := DecodeVersion(old)
	if standing := record.Standing(layout, client); standing == Missing || standing == Older {
		record.Schema = layout
	}
	if record.ClientMin == "" {
		record.ClientMin = "0.0.0"
	}
	record.CompositeOnly, record.UpdatedBy, record.UpdatedAt = true, writer, now
	item := record.Item()
	if record.Lambda != "" {
		item[attrLambdaVersion] = String(record.Lambda)
	}
	if old == nil {
		return item, Statement{Condition: CreateCondition}
	}
	for name, value := range old {
		if item[name] == nil && name != attrNested {
			item[name] = value
		}
	}
	return item, legacyUnchanged(old, attrSchemaVersion, attrUpdatedAt, attrUpdatedBy, attrKindsMin)
}
