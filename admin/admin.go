package admin

import (
	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/shared"
)

// Admin administers a table. Its parts are by subject. Make one with New. It has
// no state of its own, and is safe for concurrent use.
type Admin struct {
	// Limits are the limits of the system, resources, plans and entities.
	Limits Limits
	// Entities are the records of entities.
	Entities Entities
	// Buckets reads and fills buckets.
	Buckets Buckets
	// Namespaces are the tenants of the table.
	Namespaces Namespaces
	// Usage is how long usage is kept.
	Usage Usage

	d *desk
}

// New returns an Admin for the table and the namespace of a repository. It acts in the name of repo.As, or of
// RepositoryOptions.Principal, and sends no request now. Limiters of the same repository apply its changes at
// once.
func New(repo *dynalimit.Repository) *Admin {
	d := &desk{shared.Of(repo)}
	return &Admin{Limits: Limits{d}, Entities: Entities{lineage{d}}, Buckets: Buckets{d}, Namespaces: Namespaces{d}, Usage: Usage{d}, d: d}
}
