package credentials

import (
	"cmp"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// KeyDelay is the time between the creation of a signing key or pepper and its first use, so
// that every process has read it by then. The first keys of a set are used at once.
const KeyDelay = 5 * time.Minute

// EdDSA is the JWS name of the algorithm of every signing key: Ed25519.
const EdDSA = "EdDSA"

// MaxKeys is the maximal number of signing keys, and of peppers, in a set. Every login computes
// one HMAC per pepper.
const MaxKeys = 16

var keyIDPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// SigningKey is a key that signs tokens with EdDSA. It can be printed and logged: its private
// half is redacted.
type SigningKey struct {
	// ID is the token's kid.
	ID string
	// Created is when the key was added. It signs KeyDelay later.
	Created time.Time

	private Secret // bytes of an ed25519.PrivateKey
}

// Algorithm returns "EdDSA".
func (SigningKey) Algorithm() string { return EdDSA }

// Private returns the private key itself, not redacted. Callers must not log it.
func (k SigningKey) Private() ed25519.PrivateKey { return ed25519.PrivateKey(k.private.Reveal()) }

// Public returns the public key.
func (k SigningKey) Public() ed25519.PublicKey { return k.Private().Public().(ed25519.PublicKey) }

// Pepper is a key for hashing secrets. It can be printed and logged: its value is redacted.
type Pepper struct {
	// ID is the pepper's name, which each of its hashes contains.
	ID string
	// Created is when the pepper was added. New hashes use it KeyDelay later.
	Created time.Time

	key Secret
}

// KeySet is an immutable set of signing keys and peppers. It can be printed and logged, and is
// safe for concurrent use. Make one with ParseKeySet or NewKeySet.
type KeySet struct {
	signing []SigningKey // oldest first
	peppers []Pepper
}

// isEmpty reports whether the set is nil, or lacks signing keys or peppers. A set of ParseKeySet or NewKeySet
// has both.
func (k *KeySet) isEmpty() bool { return k == nil || len(k.signing) == 0 || len(k.peppers) == 0 }

// keyDocument is the JSON form of a key set.
type keyDocument struct {
	Signing []keyEntry `json:"signing"`
	Peppers []keyEntry `json:"peppers"`
}

// keyEntry is the JSON form of a key.
type keyEntry struct {
	ID        string    `json:"id"`
	Algorithm string    `json:"algorithm,omitempty"`
	Created   time.Time `json:"created,omitzero"`
	Key       string    `json:"key"`
}

// ParseKeySet parses a document of keys:
//
//	{"signing": [{"id": "2026-01", "algorithm": "EdDSA", "created": "2026-01-01T00:00:00Z", "key": "…"}],
//	 "peppers": [{"id": "p1", "created": "2026-01-01T00:00:00Z", "key": "…"}]}
//
// A key is 32 bytes in base64: the seed of an Ed25519 key, or a pepper. The algorithm is
// optional. A key without a creation time counts as the oldest. Each list has 1 to 16 keys with
// distinct ids, ^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$. Errors name the key and the fault, and never
// contain a value.
func ParseKeySet(document []byte) (*KeySet, error) {
	var doc keyDocument
	decoder := json.NewDecoder(strings.NewReader(string(document)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&doc); err != nil {
		return nil, invalid("keys", "%s", withoutText(err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, invalid("keys", "have data after the document; give one JSON object")
	}
	set := &KeySet{}
	err := eachKey("keys.signing", doc.Signing, func(e keyEntry, key []byte) {
		set.signing = append(set.signing, SigningKey{ID: e.ID, Created: e.Created, private: NewSecret(string(ed25519.NewKeyFromSeed(key)))})
	})
	if err != nil {
		return nil, err
	}
	err = eachKey("keys.peppers", doc.Peppers, func(e keyEntry, key []byte) {
		set.peppers = append(set.peppers, Pepper{ID: e.ID, Created: e.Created, key: NewSecret(string(key))})
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(set.signing, func(a, b SigningKey) int { return a.Created.Compare(b.Created) })
	slices.SortStableFunc(set.peppers, func(a, b Pepper) int { return a.Created.Compare(b.Created) })
	return set, nil
}

// withoutText returns a text for users about a JSON decoding error: its kind, its place, and the correction. It
// leaves out the document's own text, which may contain a key.
func withoutText(err error) string {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf("are no JSON from byte %d on; give the document that NewKeySet or 'dynalimit budget keyset create' makes", syntax.Offset)
	case errors.As(err, &wrong):
		return fmt.Sprintf("have the wrong type at %s; give the document that NewKeySet or 'dynalimit budget keyset create' makes", cmp.Or(wrong.Field, "the top"))
	case strings.HasPrefix(err.Error(), "json: unknown field"):
		return "have a field that is neither id, algorithm, created nor key, in a list that is neither signing nor peppers; give the document that NewKeySet or 'dynalimit budget keyset create' makes"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "end too early; give the document that NewKeySet or 'dynalimit budget keyset create' makes"
	}
	return "cannot be read: each key is an object with id, created (RFC 3339) and key (base64)"
}

// eachKey validates a list of keys and calls each with every valid one and its 32 decoded bytes, in order. At
// the first wrong one it stops with a *ValidationError that names field and index, never the key. The list must
// have 1 to MaxKeys.
func eachKey(field string, entries []keyEntry, each func(keyEntry, []byte)) error {
	if len(entries) < 1 || len(entries) > MaxKeys {
		return invalid(field, "are %d; give 1 to %d keys", len(entries), MaxKeys)
	}
	seen := map[string]bool{}
	for i, e := range entries {
		at := fmt.Sprintf("%s[%d]", field, i)
		key, err := base64.StdEncoding.DecodeString(e.Key)
		switch {
		case !keyIDPattern.MatchString(e.ID):
			return invalid(at+".id", "is no name of 1 to 64 letters, digits, '.', '_' and '-'; give each key a name of its own")
		case seen[e.ID]:
			return invalid(at+".id", "%s is there twice; give each key a name of its own", e.ID)
		case e.Algorithm != "" && (e.Algorithm != EdDSA || field != "keys.signing"):
			return invalid(at+".algorithm", "is unknown; leave it out, or give EdDSA for keys that sign")
		case err != nil || len(key) != ed25519.SeedSize:
			return invalid(at+".key", "is not 32 bytes in base64; make one with openssl rand -base64 32")
		}
		seen[e.ID] = true
		each(e, key)
	}
	return nil
}

// NewKeySet returns a set with one new signing key and one new pepper, both with now as their time and name. A
// nil random means crypto/rand. It fails if random does.
func NewKeySet(random io.Reader, now time.Time) (*KeySet, error) {
	return (&KeySet{}).Rotated(random, now, 0)
}

// Rotated returns the set with a new signing key and a new pepper. It drops signing keys whose
// last tokens have expired, longest being the life of the longest token. It keeps all peppers,
// because hashes name them. A nil random means crypto/rand.
//
// Errors: *ValidationError for a set with keys of the same second, and for a full set: one with
// MaxKeys peppers, until an operator removes old ones from the document, or one with MaxKeys
// signing keys, until the last token of the oldest has expired.
func (k *KeySet) Rotated(random io.Reader, now time.Time, longest time.Duration) (*KeySet, error) {
	now = now.UTC().Truncate(time.Second)
	doc := keyDocument{Peppers: entriesOf(k.peppers, Pepper.asEntry)}
	for i, s := range k.signing {
		if i+1 < len(k.signing) && now.After(k.signing[i+1].Created.Add(KeyDelay+longest)) {
			continue
		}
		doc.Signing = append(doc.Signing, s.asEntry())
	}
	id := now.Format("20060102T150405")
	same := func(e keyEntry) bool { return e.ID == id }
	switch {
	case slices.ContainsFunc(doc.Signing, same) || slices.ContainsFunc(doc.Peppers, same):
		return nil, invalid("keys", "have a key of this second, %s, which is its name; rotate again a second later", id)
	case len(doc.Peppers) >= MaxKeys:
		return nil, invalid("keys.peppers", "are %d, the maximum; remove the oldest from the file once all clients that still use it have new secrets", len(doc.Peppers))
	case len(doc.Signing) >= MaxKeys:
		return nil, invalid("keys.signing", "are %d, the maximum, and each may have signed a token that is still valid; rotate fewer than %d times in the longest lifetime of a token", len(doc.Signing), MaxKeys)
	}
	for _, list := range []*[]keyEntry{&doc.Signing, &doc.Peppers} {
		key, err := randomBytes(random)
		if err != nil {
			return nil, err
		}
		*list = append(*list, keyEntry{ID: id, Created: now, Key: base64.StdEncoding.EncodeToString(key)})
	}
	return doc.asKeySet()
}

// entriesOf returns the entries of the keys for the key document, in order; entry converts one key. The entries
// contain the keys in plain base64.
func entriesOf[K any](keys []K, entry func(K) keyEntry) []keyEntry {
	entries := make([]keyEntry, len(keys))
	for i, k := range keys {
		entries[i] = entry(k)
	}
	return entries
}

// asEntry returns the key in the form of the key document, with its seed in base64, not redacted.
func (k SigningKey) asEntry() keyEntry {
	return keyEntry{ID: k.ID, Algorithm: EdDSA, Created: k.Created, Key: base64.StdEncoding.EncodeToString(k.Private().Seed())}
}

// asEntry returns the pepper in the form of the key document, with its value in base64, not redacted.
func (p Pepper) asEntry() keyEntry {
	return keyEntry{ID: p.ID, Created: p.Created, Key: base64.StdEncoding.EncodeToString([]byte(p.key.Reveal()))}
}

// asKeySet returns the keys of the document as a set. It encodes the document as JSON and validates it by
// ParseKeySet, with that function's errors.
func (d keyDocument) asKeySet() (*KeySet, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	return ParseKeySet(text)
}

// Document returns the set as the JSON text that ParseKeySet reads, with every key unencrypted. The result is a
// Secret, so it is redacted when printed.
func (k *KeySet) Document() Secret {
	text, _ := json.MarshalIndent(keyDocument{ // cannot fail
		Signing: entriesOf(k.signing, SigningKey.asEntry), Peppers: entriesOf(k.peppers, Pepper.asEntry),
	}, "", "  ")
	return NewSecret(string(text))
}

// Signer returns the key for new tokens at now: the newest created at least KeyDelay before, else the oldest of
// the set. Every process knows such a key. The set must not be empty.
func (k *KeySet) Signer(now time.Time) SigningKey {
	return newestDistributed(k.signing, now, func(s SigningKey) time.Time { return s.Created })
}

// Verifier returns the key with an id, even if it does not sign yet or any more. ok is false if
// the set has no such key.
func (k *KeySet) Verifier(id string) (SigningKey, bool) {
	i := slices.IndexFunc(k.signing, func(s SigningKey) bool { return s.ID == id })
	if i < 0 {
		return SigningKey{}, false
	}
	return k.signing[i], true
}

// Pepper returns the pepper for new hashes at now: the newest created at least KeyDelay before, else the oldest
// of the set. Every process knows such a pepper. The set must not be empty.
func (k *KeySet) Pepper(now time.Time) Pepper {
	return newestDistributed(k.peppers, now, func(p Pepper) time.Time { return p.Created })
}

// newestDistributed returns the newest key that was created at least KeyDelay before now, so that every process
// knows it, or the oldest if none was. keys are oldest first, at least one. created returns the time of a key.
func newestDistributed[K any](keys []K, now time.Time, created func(K) time.Time) K {
	chosen := keys[0]
	for _, k := range keys[1:] {
		if !created(k).Add(KeyDelay).After(now) {
			chosen = k
		}
	}
	return chosen
}
