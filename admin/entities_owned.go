package admin

import (
	"cmp"
	"context"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// Owned is the record, the configurations and the buckets of an entity. It is a plain value.
type Owned struct {
	// Entity is the record. Without one it has its ID alone, as in Entities.GetMany.
	Entity Entity
	// Configs are the sources made for the entity, in the order of their resources.
	Configs []ScopedConfig
	// Buckets are its buckets, in the order of their resources.
	Buckets []Bucket
}

// Owned reads the record, the configurations and the buckets of an entity together, consistently: one query,
// for most entities one request and one or two read units. Usage is not read. It fails with a *ValidationError
// for a bad id, and with an error for a source that cannot be read.
func (n Entities) Owned(ctx context.Context, id string) (Owned, error) {
	if err := cmp.Or(n.d.Usable(ctx), checkEntityID("id", id)); err != nil {
		return Owned{}, err
	}
	owned := Owned{Entity: Entity{ID: id}}
	q := table.Query{Op: "read the entity", Hash: schema.PK, Value: n.d.Keys.Entity(id), Whole: true}
	q.From, q.To = schema.OwnedRange()
	for item, err := range n.d.Table.Items(ctx, q) {
		if err != nil {
			return Owned{}, err
		}
		key := schema.KeyOf(item)
		if resource, ok := schema.BucketResource(key.SK); ok {
			bucket, err := Buckets{n.d}.decodeBucket(id, resource, item)
			if err != nil {
				return Owned{}, err
			}
			owned.Buckets = append(owned.Buckets, bucket)
		} else if resource, ok := schema.ConfigResource(key.SK); ok {
			at := Scope{Entity: id, Resource: resource}.normalized()
			c, err := at.decodeSource(n.d, item)
			if err != nil {
				return Owned{}, withinField(at.String()+": ", err)
			}
			owned.Configs = append(owned.Configs, ScopedConfig{Scope: at, Config: c})
		} else if key == n.d.Keys.Meta(id) {
			e := schema.DecodeEntity(item)
			e.ID = id
			owned.Entity = entityOf(e)
		}
	}
	return owned, nil
}

// BucketID names a bucket.
type BucketID struct {
	// EntityID is the bucket's entity.
	EntityID string
	// Resource is the bucket's resource, or a group.
	Resource string
}

// GetMany reads buckets in the order of the list, which may have repetitions. A missing bucket has its EntityID
// and Resource alone. It reads them eventually consistent, at half a read unit each, 100 with each request and
// 800 at once: the tokens may lack the takes of the last moment. It fails with a *ValidationError for a bad name.
func (b Buckets) GetMany(ctx context.Context, ids []BucketID) ([]Bucket, error) {
	if err := b.d.Usable(ctx); err != nil {
		return nil, err
	}
	keys := make([]schema.Key, len(ids))
	for i, id := range ids {
		if err := cmp.Or(checkEntityID("ids.EntityID", id.EntityID), checkResource(id.Resource)); err != nil {
			return nil, err
		}
		keys[i] = b.d.Keys.Bucket(id.EntityID, id.Resource)
	}
	items, err := b.d.Table.GetManyEventually(ctx, "read buckets", keys)
	if err != nil {
		return nil, err
	}
	buckets := make([]Bucket, len(ids))
	for i, item := range items {
		if item == nil {
			buckets[i] = Bucket{EntityID: ids[i].EntityID, Resource: ids[i].Resource}
			continue
		}
		if buckets[i], err = b.decodeBucket(ids[i].EntityID, ids[i].Resource, item); err != nil {
			return nil, err
		}
	}
	return buckets, nil
}
