package laws

import (
	"strings"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// resource is the resource of all calls, and group a group that it joins and leaves.
	resource = "gpt-4"
	group    = "all"
)

// bucketIn returns the name of an item's bucket.
func bucketIn(item schema.Item) string {
	key := schema.KeyOf(item)
	return bucketOf(strings.TrimPrefix(key.PK, "ENTITY#"), strings.TrimPrefix(key.SK, "#BUCKET#"))
}

// bucketOf returns the name of a bucket. A bucket of resource has the name of its entity.
func bucketOf(entity, of string) string {
	if of == resource {
		return entity
	}
	return entity + " on " + of
}

// nameOf returns the name of a lane's bucket.
func nameOf(l *lane.Lane) string { return bucketOf(l.Entity, l.Resource) }
