// Package config knows what the stored configuration says about an entity on a resource: which
// level's limits apply, whether anything is admitted at all, and what to do when the store does not
// answer. It reads the levels from a Store, resolves them (a pure function of the items), makes the
// configuration of a bucket of them once, and caches that. Its errors are reasons: package dynalimit
// makes of them what its users see.
package config
