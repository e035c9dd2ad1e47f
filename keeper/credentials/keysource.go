package credentials

import "os"

// KeySource has the keys in force. Keys is called for every login and token: it must be
// quick, and safe for concurrent use. The set it returns does not change; another call may
// return another set.
type KeySource interface {
	// Keys returns the keys in force now.
	Keys() *KeySet
}

// Keys makes a set a source of itself, for keys that never change.
func (k *KeySet) Keys() *KeySet { return k }

// KeysFromEnvironment reads a set from an environment variable, which has the document
// that ParseKeySet reads. The environment of a process does not change: keys that are to
// rotate without a restart come from a file, see WatchKeys.
func KeysFromEnvironment(name string) (*KeySet, error) {
	document, ok := os.LookupEnv(name)
	if !ok || document == "" {
		return nil, invalid("keys", "are not in the environment; set %s to a document of keys", name)
	}
	return ParseKeySet([]byte(document))
}
