package admin

import (
	"encoding/json"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Entity is anything that is limited: a key, a project, an organisation. An entity needs
// no record to be limited; a record gives it a parent.
type Entity struct {
	// ID identifies the entity in every call: letters, digits and _ . - : @,
	// starting with a letter or digit, at most 256.
	ID string
	// Name is free text for people. Defaults to none.
	Name string
	// ParentID is the entity that this one belongs to; it needs no record. Calls of this entity
	// charge the parent's buckets too, by the limits of sources made for the parent or for its
	// plan. Defaults to none.
	ParentID string
	// Cascade makes calls charge the parent by all its sources: also by those of the resource and
	// the system, which then limit all of its children together. It needs a ParentID. Defaults to
	// false.
	Cascade bool
	// Detached makes calls not charge the parent, which is then one for order alone. Without a
	// ParentID it keeps calls from giving the entity a parent (dynalimit.WithParent). It
	// excludes Cascade. Defaults to false.
	Detached bool
	// Plan names the plan that applies if the entity has no limits of its own:
	// letters, digits and _ . - : @, starting with a letter or digit, at most 256.
	// Parents do not pass theirs on. Defaults to none.
	Plan string
	// ManagedBy names the tool that keeps the record, for tools: the limiter ignores it.
	// At most 64 bytes of letters, digits and _ . - : @ /. Defaults to none.
	ManagedBy string
	// Metadata is any JSON value for people and tools, at most 16 KB and 24 levels deep;
	// the limiter ignores it. It is returned byte for byte as it was given; a value of another
	// tool is returned as JSON. Defaults to none.
	Metadata json.RawMessage
	// CreatedAt is when the record was made, in whole seconds; zero before that.
	CreatedAt time.Time
	// Version counts the changes of the record: Entities.Update requires the version that was
	// read. It is 0 for a record that another tool made.
	Version int64
	// Only confirms that the change takes money out of force: limits of another
	// plan, or of a parent that calls charge no more. Only Entities.Update and UpdateMany use
	// it, and it is not stored. Defaults to false, which refuses the change.
	Only bool
	// Deleting means that the entity's deletion has begun: Entities.Delete is to be called
	// again. Writing ignores it.
	Deleting bool
}

// Validate returns the *ValidationError with which Entities.Create would refuse the entity,
// for any stored records; nil if it can be made. It sends no request.
func (e Entity) Validate() error {
	if err := checkEntityID("entity.ID", e.ID); err != nil {
		return err
	}
	if e.ParentID != "" {
		if err := checkEntityID("entity.ParentID", e.ParentID); err != nil {
			return err
		}
	}
	if e.ParentID == e.ID {
		return invalid("entity.ParentID", "is the entity itself (%q); name another one, or none", e.ID)
	}
	if e.Cascade && e.ParentID == "" {
		return invalid("entity.Cascade", "is true without a parent to charge; name a parent, or set it to false")
	}
	if e.Cascade && e.Detached {
		return invalid("entity.Detached", "is true together with Cascade, which charges the parent; leave one of them out")
	}
	if e.Plan != "" {
		if err := checkEntityID("entity.Plan", e.Plan); err != nil {
			return err
		}
	}
	return checkMetadata(e)
}

// checkMetadata returns a *ValidationError for the fields of an entity that the limiter does not use: name,
// manager, metadata.
func checkMetadata(e Entity) error {
	if len(e.Name) > longestName || !utf8.ValidString(e.Name) {
		return invalid("entity.Name", "has %d bytes; give UTF-8 of at most %d", len(e.Name), longestName)
	}
	if reason := schema.CheckManager(e.ManagedBy); reason != "" {
		return invalid("entity.ManagedBy", "%s", reason)
	}
	if reason := schema.CheckMetadata(e.Metadata); reason != "" {
		return invalid("entity.Metadata", "%s", reason)
	}
	return nil
}

// checkUpdate returns a *ValidationError for an invalid entity or a version below 0, before its record is
// replaced. It reads nothing.
func checkUpdate(e Entity) error {
	if err := e.Validate(); err != nil {
		return err
	}
	if e.Version < 0 {
		return withFix(invalid("entity.Version", "is %d; give the one that you read", e.Version), fault.GetEntity)
	}
	return nil
}

// recordOf converts an entity to its record, with a copy of the metadata. It leaves out Only and Deleting,
// which are not written.
func recordOf(e Entity) schema.EntityRecord {
	return schema.EntityRecord{
		ID: e.ID, Name: e.Name, ParentID: e.ParentID, Cascade: e.Cascade, Detached: e.Detached, Plan: e.Plan, ManagedBy: e.ManagedBy,
		Metadata: slices.Clone(e.Metadata), CreatedAt: e.CreatedAt, Version: e.Version,
	}
}

// entityOf converts a record to an Entity, with the same metadata slice.
func entityOf(r schema.EntityRecord) Entity {
	return Entity{
		ID: r.ID, Name: r.Name, ParentID: r.ParentID, Cascade: r.Cascade, Detached: r.Detached, Plan: r.Plan, ManagedBy: r.ManagedBy,
		Metadata: r.Metadata, CreatedAt: r.CreatedAt, Version: r.Version, Deleting: r.Deleting,
	}
}

// longestName bounds an entity's name, in bytes: the record and its copy in the children
// index stay cheap to read.
const longestName = 1024
