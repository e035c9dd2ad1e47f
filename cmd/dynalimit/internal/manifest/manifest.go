// Package manifest implements limits as code: it decodes a manifest, compares it with a table,
// changes the table to match, and exports the manifest of a table.
package manifest

import (
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/internal/yamlfile"
)

// MaxSize is the maximal size of a manifest, in bytes.
const MaxSize = yamlfile.MaxSize

var below = yamlfile.JoinPath

// DefaultName is the manager of items of a manifest without a name.
const DefaultName = "manifest"

// Manifest is the intended state of a table.
type Manifest struct {
	// Name is the manager of the items, their managed_by.
	Name string
	// Namespace is the tenant of the manifest. Defaults to the command's.
	Namespace string
	// Configs are the sources, without version and manager. Limits are sorted by name, with
	// their defaults filled in.
	Configs map[admin.Scope]admin.LimitConfig
	// Entities are the entities that the manifest names.
	Entities map[string]Entity
	// Warnings are possible mistakes.
	Warnings Problems
}

// Entity is an entity in a manifest, apart from its sources.
type Entity struct {
	// Record is the intended record.
	Record admin.Entity
	// LimitsOnly is true if the manifest has sources of the entity but no record. Then no record
	// is created, and another manager's record is left alone.
	LimitsOnly bool
}

// Problem is a fault of a manifest with its position.
type Problem = yamlfile.Problem

// Problems is all faults of a manifest, in the order of the file.
type Problems = yamlfile.Problems
