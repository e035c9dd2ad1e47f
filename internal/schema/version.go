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
	// attrCompositeOnly is the mark that all items of the layout before composite items are gone.
	attrCompositeOnly = "composite_only"
)

// The generations of kinds of limits: 0 has token buckets alone. A client refuses a table that requires a
// later one than it knows.
const (
	// GroupKinds is the generation that charges the groups of a resource.
	GroupKinds = 1
	// QuotaKinds is the generation that knows calendar quotas.
	QuotaKinds = 2
	// SourceKinds is the generation that knows the marks of sources (those that extend, blocks with exceptions,
	// unlimited ones that are counted), and parents that count by their own sources.
	SourceKinds = 3
	// SlotsKinds is the generation that knows limits of calls in flight, and reserves.
	SlotsKinds = 4
	// KnownKinds is the generation that this version knows.
	KnownKinds = SlotsKinds
)

// VersionRecord is the version of a table's layout. There is one for the whole table.
type VersionRecord struct {
	// Schema is the version of the layout, ClientMin the oldest client that can use it, and Lambda the
	// version of zae-limiter's deployed aggregator, if any.
	Schema, ClientMin, Lambda string
	// CompositeOnly means that all items of the layout before composite items are gone.
	CompositeOnly bool
	// KindsMin is the least generation of kinds of limits that a client has to know; 0 if there are token
	// buckets only.
	KindsMin int64
	// UpdatedBy names the writer, and UpdatedAt is the time of its write.
	UpdatedBy string
	UpdatedAt time.Time
}

// LaterVersionKey returns the key of zae-limiter's version record from 0.10 on, which keeps buckets under
// keys with a namespace.
func LaterVersionKey() Key { return Key{"_/SYSTEM#", skVersion} }

// Item returns the item of the version record, without Lambda's version, a KindsMin of 0, and a CompositeOnly
// that is false.
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

// DecodeVersion reads a version item, also in the form of writers before 0.6, which keep its attributes in a
// map. It returns false for an absent item.
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

// MarkNew returns the update that marks the version record as that of a new table: it sets CompositeOnly and
// requires KnownKinds. It fails to apply unless the writer made the record.
func MarkNew(writer string) Statement {
	b := newStatementBuilder()
	b.setValue(attrCompositeOnly, &types.AttributeValueMemberBOOL{Value: true})
	b.setValue(attrKindsMin, Number(KnownKinds))
	b.requireCompare(attrUpdatedBy, "=", String(writer))
	return b.build()
}

// RaiseKinds returns the update of the version record that requires clients to know a generation of kinds. It
// fails to apply without a record, or if the record requires that generation or a later one already.
func RaiseKinds(generation int64) Statement {
	b := newStatementBuilder()
	b.requireExists(PK)
	b.setValue(attrKindsMin, Number(generation))
	known := b.name(attrKindsMin)
	b.require("(attribute_not_exists(" + known + ") OR " + known + " < " + b.value(Number(generation)) + ")")
	return b.build()
}

// Standing is the relation of a table's layout to a client's.
type Standing uint8

const (
	// Current is the client's own layout, or has additions that the client need not know.
	Current Standing = iota
	// Missing means that the table has no version record.
	Missing
	// Older is a layout before the client's.
	Older
	// Newer is a layout after the client's, of the same major version.
	Newer
	// Incompatible is a layout of a newer major version, or one with an unreadable version.
	Incompatible
	// ClientTooOld means that the record requires a newer client, by its version or by the kinds of limits
	// that it has to know.
	ClientTooOld
)

// Standing returns the relation of the record's layout to a client with the given layout and version.
// ClientTooOld goes before all others, and a record without a layout is Missing.
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

// beforeComposite reports whether the record is of zae-limiter 0.1 to 0.6. Their layout is 1.0.0; 0.7, with
// composite items, restarted at its own version.
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

// before reports whether n is an earlier version than other.
func (n versionNumber) before(other versionNumber) bool {
	for i := range n {
		if n[i] != other[i] {
			return n[i] < other[i]
		}
	}
	return false
}

// parseVersion parses 1.2.3, v1.2, 1.2.3-rc1 and 0.1.0.dev123+gabcdef. Only the first three numbers count;
// missing ones are 0. It returns false for other text.
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

// MarkedVersion returns the version item with the mark CompositeOnly, written by writer at now, and the
// condition that old is still as read. An absent old is nil; its other attributes stay. A missing layout, or
// one older than the client's, becomes the client's.
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
