package schema

import (
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/fault"
)

// Attribute names of namespace records. They are not in an index: GSI3 has keys alone.
const (
	attrState        = "state"
	attrRegisteredAt = "registered_at"
	attrRegisteredBy = "registered_by"
	attrChangedAt    = "changed_at"
	attrChangedBy    = "changed_by"
	attrChangeCount  = "version"

	skNamespace = "#NAMESPACE"
	// namespaces is the partition of GSI3 that lists the namespaces of the table.
	namespaces = "NAMESPACES#"
)

// NamespaceRecord is the content of a namespace's #NAMESPACE item.
type NamespaceRecord struct {
	Name  string
	State fault.NamespaceState
	// RegisteredAt and RegisteredBy are the time and the author of the registration.
	RegisteredAt time.Time
	RegisteredBy string
	// ChangedAt and ChangedBy are the time and the author of the present state. ChangedAt is in milliseconds,
	// because a purge counts from it.
	ChangedAt time.Time
	ChangedBy string
	// Version counts the writes of the record.
	Version int64
}

// Namespace returns the key of the namespace's record, also for the keys of this project's own counters. ok is
// false for the layout without a namespace.
func (k Keys) Namespace() (key Key, ok bool) {
	space := strings.TrimSuffix(k.prefix, ownPrefix)
	return Key{space + "SYSTEM#", skNamespace}, space != ""
}

// Namespaces returns the partition key of GSI3 that lists the namespaces of the table.
func (Keys) Namespaces() string { return namespaces }

// Within reports whether a key is in the namespace. It is false without a namespace.
func (k Keys) Within(key Key) bool { return k.prefix != "" && strings.HasPrefix(key.PK, k.prefix) }

// WithinPrefix returns the filter of a scan for the items of the namespace, as the condition of a Statement. It
// compares the beginning of the partition key.
func (k Keys) WithinPrefix() Statement {
	b := newStatementBuilder()
	b.require("begins_with(" + b.name(PK) + ", " + b.value(String(k.prefix)) + ")")
	return b.build()
}

// EncodeNamespace returns the item of a namespace's record, with times in Unix ms and without empty authors.
// GSI3 lists it among the table's namespaces.
func EncodeNamespace(n NamespaceRecord) Item {
	key, _ := NewKeys(n.Name).Namespace()
	item := key.Attributes()
	item[GSI3PK], item[GSI3SK] = String(namespaces), String(n.Name)
	item[attrName] = String(n.Name)
	item[attrState] = String(string(n.State))
	item[attrRegisteredAt] = Number(n.RegisteredAt.UnixMilli())
	item[attrChangedAt] = Number(n.ChangedAt.UnixMilli())
	if n.RegisteredBy != "" {
		item[attrRegisteredBy] = String(n.RegisteredBy)
	}
	if n.ChangedBy != "" {
		item[attrChangedBy] = String(n.ChangedBy)
	}
	item[attrChangeCount] = Number(n.Version)
	return item
}

// DecodeNamespace reads a namespace's record and leaves malformed fields zero. ok is false for an absent
// record.
func DecodeNamespace(item Item) (n NamespaceRecord, ok bool) {
	if len(item) == 0 {
		return NamespaceRecord{}, false
	}
	d := &decoder{item: item}
	instant := func(name string) time.Time {
		if ms, ok := d.number(name); ok {
			return time.UnixMilli(ms).UTC()
		}
		return time.Time{}
	}
	n = NamespaceRecord{
		Name: Text(item, attrName), State: fault.NamespaceState(Text(item, attrState)),
		RegisteredAt: instant(attrRegisteredAt), RegisteredBy: Text(item, attrRegisteredBy),
		ChangedAt: instant(attrChangedAt), ChangedBy: Text(item, attrChangedBy),
	}
	n.Version, _ = d.number(attrChangeCount)
	return n, true
}

// NamespaceUnchanged returns the condition that a namespace's record still has the version of old, or no
// version if old has none. A nil old requires that there is no record.
func NamespaceUnchanged(old Item) Statement {
	b := newStatementBuilder()
	switch version := old[attrChangeCount]; {
	case old == nil:
		b.requireAbsent(PK)
	case version == nil:
		b.requireExists(PK)
		b.requireAbsent(attrChangeCount)
	default:
		b.requireCompare(attrChangeCount, "=", version)
	}
	return withoutEmptyValues(b.build())
}

// NamespaceIsActive returns the condition that a namespace's record exists and has the state active.
func NamespaceIsActive() Statement {
	b := newStatementBuilder()
	b.requireCompare(attrState, "=", String(string(fault.NamespaceActive)))
	return b.build()
}
