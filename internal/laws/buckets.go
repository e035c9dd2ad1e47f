package laws

import (
	"strings"

	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// resource is that of all calls, and group a group that it is put into and taken out of.
	resource = "gpt-4"
	group    = "all"
)

// bucketIn names the bucket of an item.
func bucketIn(item schema.Item) string {
	key := schema.KeyOf(item)
	return bucketOf(strings.TrimPrefix(key.PK, "ENTITY#"), strings.TrimPrefix(key.SK, "#BUCKET#"))
}

// bucketOf names a bucket: by its entity that of the resource of most calls.
func bucketOf(entity, of string) string {
	if of == resource {
		return entity
	}
	return entity + " on " + of
}

// nameOf names a lane's bucket.
func nameOf(l *lane.Lane) string { return bucketOf(l.Entity, l.Resource) }
