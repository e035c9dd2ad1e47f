// Package manifest is limits as code: it reads a manifest, compares it with what a table
// says, brings the table to say the same, and writes the manifest of a table.
package manifest

import (
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/yamlfile"
)

// MaxSize is how long a manifest may be, in bytes.
const MaxSize = yamlfile.MaxSize

var below = yamlfile.Below

// DefaultName is who manages what a manifest without a name describes.
const DefaultName = "manifest"

// Manifest is what a table is to say.
type Manifest struct {
	// Name is who manages the items, as they tell in managed_by.
	Name string
	// Namespace is the tenant that the manifest is for. Defaults to the command's.
	Namespace string
	// Configs are the levels, without version and manager; limits are sorted by name and
	// have their defaults filled in.
	Configs map[admin.Scope]admin.LimitConfig
	// Entities are the entities that the manifest names.
	Entities map[string]Entity
	// Warnings are what may be meant, and may be a mistake.
	Warnings Problems
}

// Entity is what a manifest says of an entity besides its levels.
type Entity struct {
	// Record is the record that it is to have.
	Record admin.Entity
	// LimitsOnly says that the manifest has levels of the entity and nothing about a record:
	// none is made then, and one that the manifest does not manage is left alone.
	LimitsOnly bool
}

// Problem is something about a manifest, and where it stands.
type Problem = yamlfile.Problem

// Problems are all that is wrong with a manifest, in the order of the file.
type Problems = yamlfile.Problems
