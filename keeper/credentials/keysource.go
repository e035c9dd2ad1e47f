package credentials

import "os"

// KeySource provides the current keys. It is safe for concurrent use. Every login and token
// calls Keys, so it must be fast. A returned set never changes; another call may return another
// set.
type KeySource interface {
	// Keys returns the current keys.
	Keys() *KeySet
}

// Keys returns k itself, so that a fixed set is a KeySource.
func (k *KeySet) Keys() *KeySet { return k }

// KeysFromEnvironment parses the document of keys in the environment variable name, as ParseKeySet does. A
// missing or empty variable is a *ValidationError. It reads once: for keys that rotate without a restart use a
// file and WatchKeys.
func KeysFromEnvironment(name string) (*KeySet, error) {
	document, ok := os.LookupEnv(name)
	if !ok || document == "" {
		return nil, invalid("keys", "are not in the environment; set %s to a document of keys", name)
	}
	return ParseKeySet([]byte(document))
}
