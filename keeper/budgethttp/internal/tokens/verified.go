package tokens

import (
	"crypto/ed25519"
	"crypto/sha256"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// remembered is the default of Options.Remember: a few megabytes.
const remembered = 10_000

// genuine is a token with a valid signature.
type genuine struct {
	claims    Claims
	notBefore time.Time // nbf; zero without one
	kid       string
	key       ed25519.PublicKey
}

// verified caches access tokens with valid signatures, because verifying the signature takes
// most of a request's time. The cache key is the token's SHA-256, from which the token cannot
// be derived.
type verified struct {
	*lru.Cache[[sha256.Size]byte, genuine]
	hits, misses atomic.Int64
}

// newVerified returns an empty cache of at most size verified tokens.
func newVerified(size int) *verified {
	known, _ := lru.New[[sha256.Size]byte, genuine](size) // fails only for a size below 1
	return &verified{Cache: known}
}

// isValid reports whether a token verified before is still valid: its key is still in the set under its name,
// and its time has begun and not ended.
func (g genuine) isValid(keys *credentials.KeySet, now time.Time) bool {
	key, ok := keys.Verifier(g.kid)
	return ok && key.Public().Equal(g.key) && now.Before(g.claims.Expires) && !now.Before(g.notBefore) && !g.claims.Issued.After(now.Add(clockSkew))
}
