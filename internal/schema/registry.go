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

// Resources returns the key of the set of resources that have limits.
func (k Keys) Resources() Key { return Key{k.prefix + "SYSTEM#", skResources} }

// EntityResources returns the key of the item that counts the entities with limits, per resource.
func (k Keys) EntityResources() Key { return Key{k.prefix + "SYSTEM#", skEntityResources} }

// Plans returns the partition key of the index that lists the configurations of plans.
func (k Keys) Plans() string { return k.prefix + "PLANS#" }

// Countable reports whether entities with limits for a resource can be counted. A resource with the name of a
// key attribute cannot, because an index takes no number as a key.
func Countable(resource string) bool { return !slices.Contains(Uncounted(), resource) }

// Uncounted returns the resources that are not Countable: the names of key attributes.
func Uncounted() []string {
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

// ListResources returns the update that adds resources to the set of those with limits, or removes them from
// it.
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

// ResourceNames returns the resources with limits of their own, from the item of Keys.Resources, unsorted; nil
// without one.
func ResourceNames(item Item) []string {
	if set, ok := item[attrResources].(*types.AttributeValueMemberSS); ok {
		return set.Value
	}
	return nil
}

// Uncount returns the update that removes a resource's count of entities with limits. It fails to apply while
// the count is above 0, and if there is none.
func Uncount(resource string) Statement {
	b := newStatementBuilder()
	b.drop(resource)
	b.requireCompare(resource, "<=", Number(0))
	return b.build()
}
