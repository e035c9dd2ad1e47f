package schema

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	skResources       = "#RESOURCES"
	skEntityResources = "#ENTITY_CONFIG_RESOURCES"
	attrResources     = "resources"
)

// Resources returns the key of the item with the set of resources that have limits for everyone.
func (k Keys) Resources() Key { return Key{k.prefix + "SYSTEM#", skResources} }

// EntityResources returns the key of the item that counts the entities with limits, per resource.
func (k Keys) EntityResources() Key { return Key{k.prefix + "SYSTEM#", skEntityResources} }

// Plans returns the partition key of the index that lists the configurations of plans.
func (k Keys) Plans() string { return k.prefix + "PLANS#" }

// Countable reports whether entities with limits for a resource can be counted. A resource with the name of a
// key attribute cannot, because an index takes no number as a key.
func Countable(resource string) bool { return !slices.Contains(KeyAttributes(), resource) }

// KeyAttributes returns the names of the key attributes. For a resource of such a name the number of entities
// with limits is not stored, so a listing must query it always.
func KeyAttributes() []string {
	return []string{PK, SK, GSI1PK, GSI1SK, GSI2PK, GSI2SK, GSI3PK, GSI3SK}
}

// CountConfigs returns the update that adds counts to the numbers of entities with limits, by resource. It
// leaves out 0 and resources that are not Countable, and returns false if nothing is left.
func CountConfigs(counts map[string]int64) (Statement, bool) {
	b := newStatementBuilder()
	for _, resource := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[resource]; n != 0 && Countable(resource) {
			b.addNumber(resource, n)
		}
	}
	return b.build(), len(b.add) > 0
}

// ListResources returns the update, without a condition, that adds names to the set of resources with limits,
// or with remove takes them out. The list must not be empty.
func ListResources(names []string, remove bool) Statement {
	b := newStatementBuilder()
	verb := "ADD "
	if remove {
		verb = "DELETE "
	}
	update := verb + b.name(attrResources) + " " + b.value(&types.AttributeValueMemberSS{Value: names})
	return Statement{Update: update, Names: b.names, Values: b.values}
}

// CountedResources returns, sorted, the resources with a positive count of entities with limits in the item
// of EntityResources.
func CountedResources(item Item) []string {
	var resources []string
	for name, v := range item {
		if n, ok := v.(*types.AttributeValueMemberN); ok && n.Value != "0" && !strings.HasPrefix(n.Value, "-") {
			resources = append(resources, name)
		}
	}
	slices.Sort(resources)
	return resources
}

// ResourceNames returns the resources with limits for everyone, from the item of Keys.Resources, unsorted; nil
// for an absent item or an empty set.
func ResourceNames(item Item) []string {
	if set, ok := item[attrResources].(*types.AttributeValueMemberSS); ok {
		return set.Value
	}
	return nil
}

// Uncount returns the update that removes a resource's count of entities with limits. It fails to apply while
// the count is above 0, and without a count.
func Uncount(resource string) Statement {
	b := newStatementBuilder()
	b.drop(resource)
	b.requireCompare(resource, "<=", Number(0))
	return b.build()
}
