package credentials

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"
)

// hashPrefix is the prefix of the store's own hashes: version, pepper and HMAC, separated by
// colons.
const hashPrefix = "v1:"

// The purpose of a hash. A hash of one purpose never matches another.
const (
	purposeClient = "client"
	purposeKey    = "key"
)

// hmacOf returns the HMAC-SHA-256 of a secret with its purpose and owner, under the pepper's key, as 32 bytes.
// Another purpose or owner gives another HMAC.
func (p Pepper) hmacOf(purpose, owner string, secret Secret) []byte {
	mac := hmac.New(sha256.New, []byte(p.key.Reveal()))
	for _, part := range []string{purpose, owner, secret.Reveal()} {
		mac.Write([]byte(part))
		mac.Write([]byte{0}) // owners contain no NUL, so that distinct inputs stay distinct
	}
	return mac.Sum(nil)
}

// hashSecret returns the stored form of a secret's HMAC for a purpose and owner: "v1:", the pepper's id, ":"
// and the HMAC as hex text.
func (p Pepper) hashSecret(purpose, owner string, secret Secret) string {
	return hashPrefix + p.ID + ":" + hex.EncodeToString(p.hmacOf(purpose, owner, secret))
}

// parseHash splits a stored hash of this store into the pepper's id and the 32 bytes of the HMAC. For a
// malformed hash or one of another system ok is false.
func parseHash(hash string) (pepper string, sum []byte, ok bool) {
	rest, ok := strings.CutPrefix(hash, hashPrefix)
	if !ok {
		return "", nil, false
	}
	pepper, text, _ := strings.Cut(rest, ":")
	sum, err := hex.DecodeString(text)
	return pepper, sum, err == nil && len(sum) == sha256.Size
}

// attempt is a received secret, hashed once under each pepper. The work does not depend on
// whether a stored hash exists.
type attempt map[string][]byte

// newAttempt returns the HMACs of a received secret for a purpose and owner, by pepper id, one for each pepper.
// The work is the same for every secret.
func newAttempt(peppers []Pepper, purpose, owner string, secret Secret) attempt {
	a := make(attempt, len(peppers))
	for _, p := range peppers {
		a[p.ID] = p.hmacOf(purpose, owner, secret)
	}
	return a
}

// matches reports as fits whether a stored hash is of the same secret; comparing takes constant time. known is
// false, and fits too, if the hash is of another system or an unknown pepper.
func (a attempt) matches(hash string) (fits, known bool) {
	pepper, sum, ok := parseHash(hash)
	own, known := a[pepper]
	if !known {
		own, sum = make([]byte, sha256.Size), append(make([]byte, sha256.Size-1), 1)
	}
	return subtle.ConstantTimeCompare(own, sum) == 1 && ok && known, known
}
