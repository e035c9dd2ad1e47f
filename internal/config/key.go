package config

// Key identifies one resolved configuration: that of an entity on a resource or, with Group, on a group of
// resources.
type Key struct {
	Entity, Resource string
	Group            bool
}

// String returns the key as text; '#' is not allowed in identifiers.
func (k Key) String() string {
	if k.Group {
		return k.Entity + "#" + k.Resource + "#"
	}
	return k.Entity + "#" + k.Resource
}

// GivenKey identifies a configuration with the plan that a call gives, if any. The plan counts if the
// entity's record names none.
type GivenKey struct {
	Key
	Plan string
}

// String returns the key as text; '#' is not allowed in identifiers.
func (k GivenKey) String() string { return k.Key.String() + "#" + k.Plan }

// planItemsKey returns the key of the items of the given plan, which all entities share.
func (k GivenKey) planItemsKey() planKey { return planKey{k.Plan, k.Resource, k.Group} }

// planKey identifies the items of a plan for a resource or a group.
type planKey struct {
	plan, resource string
	group          bool
}

// String returns the key as text.
func (k planKey) String() string { return Key{k.plan, k.resource, k.group}.String() }
