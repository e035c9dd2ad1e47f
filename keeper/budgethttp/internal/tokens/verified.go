package tokens

import (
	"crypto/ed25519"
	"crypto/sha256"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// remembered is Options.Remember unless it is set: a few megabytes.
const remembered = 10_000

// genuine is what was found of a token that is signed by a key.
type genuine struct {
	claims    Claims
	notBefore time.Time // nbf; zero if there is none
	kid       string
	key       ed25519.PublicKey
}

// verified remembers access tokens whose signature was good, so that it is not computed
// for each request: it is most of what a request takes. They are known by their SHA-256,
// by which nobody is let in.
type verified struct {
	*lru.Cache[[sha256.Size]byte, genuine]
	hits, misses atomic.Int64
}

func newVerified(size int) *verified {
	known, _ := lru.New[[sha256.Size]byte, genuine](size) // fails only for a size below 1
	return &verified{Cache: known}
}

// inForce reports whether what holds at every moment holds now: the key that signed is
// there under its name, and the token has begun and not ended.
func (g genuine) inForce(keys *credentials.KeySet, now time.Time) bool {
	key, ok := keys.Verifier(g.kid)
	return ok && key.Public().Equal(g.key) && now.Before(g.claims.Expires) && !now.Before(g.notBefore) && !g.claims.Issued.After(now.Add(clockSkew))
}
