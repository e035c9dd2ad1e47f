// Package config resolves the stored configuration of an entity on a resource: the limits in force, whether
// calls are blocked, and the policy for outages of the store. It reads the sources from a Store, resolves them
// (a pure function of the items), compiles the configuration of a bucket once, and caches it. Its errors are
// reasons; package dynalimit turns them into the errors that users see.
package config
