// Package admin is for who administers a table of limits: limits by Scope, entities,
// namespaces, buckets by hand, and who changed what.
//
//	a := admin.New(repo.As("ann@example.com"))
//	err := a.Limits.Set(ctx, admin.Scope{Plan: "pro"}, []dynalimit.Limit{dynalimit.PerMinute("rpm", 600)})
//
// Which part to use: Limits says how much anybody may take, Entities who has a parent or a
// plan, Buckets what is left and fills it by hand, Namespaces which tenants there are.
// AuditEvents lists the changes: each is made in somebody's name, in one transaction with its
// event. Migrate turns a table of an older layout, and Alone keeps two tools apart.
package admin
