// Package config decides what stored configuration says about an entity on a resource:
// which level's limits apply, whether anything is admitted at all, and what to do when
// the store does not answer. It is a pure function of the items that were read.
package config
