package credentials

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"
)

// hashPrefix begins a hash of the store's own: version, pepper and HMAC, parted by colons.
const hashPrefix = "v1:"

// What a hash is of, so that none fits where it was not made for.
const (
	purposeClient = "client"
	purposeKey    = "key"
)

// sum is the HMAC of a secret under a pepper, bound to what it is for and whose it is.
func (p Pepper) sum(purpose, owner string, secret Secret) []byte {
	mac := hmac.New(sha256.New, []byte(p.key.Reveal()))
	for _, part := range []string{purpose, owner, secret.Reveal()} {
		mac.Write([]byte(part))
		mac.Write([]byte{0}) // owners have no NUL, so that no two inputs are the same
	}
	return mac.Sum(nil)
}

// hash is a secret's hash as it is stored.
func (p Pepper) hash(purpose, owner string, secret Secret) string {
	return hashPrefix + p.ID + ":" + hex.EncodeToString(p.sum(purpose, owner, secret))
}

// parseHash is the pepper and the HMAC of a hash; false for another system's.
func parseHash(hash string) (pepper string, sum []byte, ok bool) {
	rest, ok := strings.CutPrefix(hash, hashPrefix)
	if !ok {
		return "", nil, false
	}
	pepper, text, _ := strings.Cut(rest, ":")
	sum, err := hex.DecodeString(text)
	return pepper, sum, err == nil && len(sum) == sha256.Size
}

// attempt is a secret that somebody gave, hashed once under each pepper: the work is the
// same whether there is something to compare it with or not.
type attempt map[string][]byte

func newAttempt(peppers []Pepper, purpose, owner string, secret Secret) attempt {
	a := make(attempt, len(peppers))
	for _, p := range peppers {
		a[p.ID] = p.sum(purpose, owner, secret)
	}
	return a
}

// fits reports whether a hash is the secret's. known is false for a hash whose pepper is
// not among those that were given.
func (a attempt) fits(hash string) (fits, known bool) {
	pepper, sum, ok := parseHash(hash)
	own, known := a[pepper]
	if !known {
		own, sum = make([]byte, sha256.Size), append(make([]byte, sha256.Size-1), 1)
	}
	return subtle.ConstantTimeCompare(own, sum) == 1 && ok && known, known
}
