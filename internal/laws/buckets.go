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

// bucketOfItem returns the oracle's name of the bucket in an item or a key, see bucketOf.
func bucketOfItem(item schema.Item) string {
	key := schema.KeyOf(item)
	return bucketOf(strings.TrimPrefix(key.PK, "ENTITY#"), strings.TrimPrefix(key.SK, "#BUCKET#"))
}

// bucketOf returns the name of a bucket in the oracle and the judge: "entity on resource", or the entity alone
// for the resource of all histories.
func bucketOf(entity, of string) string {
	if of == resource {
		return entity
	}
	return entity + " on " + of
}

// bucketOfLane returns the oracle's name of a lane's bucket, see bucketOf.
func bucketOfLane(l *lane.Lane) string { return bucketOf(l.Entity, l.Resource) }
