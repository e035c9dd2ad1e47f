// Package admin is for the administrators of a table of limits: limits by Scope, entities,
// namespaces, buckets by hand, and the history of changes.
//
//	a := admin.New(repo.As("ann@example.com"))
//	err := a.Limits.Set(ctx, admin.Scope{Plan: "pro"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 600)})
//
// Limits sets the limits of every source, Entities sets parents and
// plans, Buckets reads the remaining tokens and fills buckets by hand, Namespaces manages tenants.
// AuditEvents lists the changes: each has a principal, and is in one transaction with its
// event. Migrate turns a table of an older layout, and Alone keeps two tools apart.
package admin
