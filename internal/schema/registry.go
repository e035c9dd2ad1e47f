package schema

import "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

const (
	skResources       = "#RESOURCES"
	skEntityResources = "#ENTITY_CONFIG_RESOURCES"
	attrResources     = "resources"
)

// Resources is the key of the set of resources that have limits.
func (k Keys) Resources() Key { return Key{k.prefix + "SYSTEM#", skResources} }

// EntityResources is the key of the item that counts, per resource, the
// entities with limits for it.
func (k Keys) EntityResources() Key { return Key{k.prefix + "SYSTEM#", skEntityResources} }

// Register returns the update that lists the owner's limits, or removes them
// from the list; ok is false for an owner that is not listed: the system, a plan, and a
// resource whose name cannot be counted under, for it is a key's.
func (k Keys) Register(o ConfigOwner, remove bool) (key Key, st Statement, ok bool) {
	o = o.Normal()
	b := newStatementBuilder()
	switch {
	case o.Plan != "" || o.Resource == "" || o.Entity != "" && (o.Resource == PK || o.Resource == SK):
		return Key{}, Statement{}, false
	case o.Entity == "":
		verb := "ADD "
		if remove {
			verb = "DELETE "
		}
		update := verb + b.name(attrResources) + " " + b.value(&types.AttributeValueMemberSS{Value: []string{o.Resource}})
		return k.Resources(), Statement{Update: update, Names: b.names, Values: b.values}, true
	}
	n := int64(1)
	if remove {
		n = -1
	}
	b.addNumber(o.Resource, n)
	return k.EntityResources(), b.build(), true
}

// ResourceNames lists the resources that have limits.
func ResourceNames(item Item) []string {
	if set, ok := item[attrResources].(*types.AttributeValueMemberSS); ok {
		return set.Value
	}
	return nil
}

// Uncount returns the update that drops the count of a resource that no entity
// has limits for any more.
func Uncount(resource string) Statement {
	b := newStatementBuilder()
	b.drop(resource)
	b.compare(resource, "<=", Number(0))
	return b.build()
}

// ConfiguredEntity is the entity named by an item of the index of entities with
// limits.
func ConfiguredEntity(item Item) string { return Text(item, GSI3SK) }
