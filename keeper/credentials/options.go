package credentials

import (
	"cmp"
	"crypto/rand"
	"io"
	"log/slog"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// RetrievalTTL is how long a retrieval token can be used.
const RetrievalTTL = 10 * time.Minute

// MaxGraceHours is the longest time for which a secret works beside the one that
// replaced it.
const MaxGraceHours = 168

// CacheTTL is how long another process may take a revoked token or provisioning key for
// good; the process that revoked it refuses it at once.
const CacheTTL = 30 * time.Second

// Options configure a Store.
type Options struct {
	// Keys has the peppers and the keys that sign. Nil is refused, and so is one without keys.
	Keys KeySource
	// Now is the clock. Defaults to the process's, corrected by DynamoDB's.
	Now func() time.Time
	// Random is where secrets, tokens and keys come from. Defaults to crypto/rand.Reader.
	Random io.Reader
	// ImportedHash verifies a secret by the hash of another system, such as bcrypt's,
	// see Store.Import. At the first login that it accepts, the hash is replaced with one
	// of the store's own. Defaults to nil: imported hashes fit no secret.
	ImportedHash func(hash, secret Secret) bool
	// ImportedDecoy is an imported hash of nobody's: where a login fails without
	// ImportedHash having been asked, it is asked about this one, so that a client with
	// an imported hash takes no longer to refuse than one that does not exist. Defaults to
	// an empty one: none.
	ImportedDecoy Secret
	// LongestToken is how long the tokens of a login can be good at most, all together:
	// the longest refresh token's time and an access token's. Revocations of clients are
	// kept as long. Defaults to 31 days.
	LongestToken time.Duration
	// CacheSize bounds how many tokens are remembered as not revoked. Defaults to 50,000,
	// some 20 MB.
	CacheSize int
	// RequestTimeout bounds one request to DynamoDB, with the SDK's tries of it. Defaults
	// to 1 s.
	RequestTimeout time.Duration
	// Timeout bounds one call, reads and tries together. Defaults to 2 s.
	Timeout time.Duration
	// Principal is who makes the changes that an administrator makes, as their events
	// tell; Store.As gives a store with another. Defaults to nobody: then changes are
	// refused, unless AllowAnonymous is set.
	Principal string
	// AllowAnonymous lets changes be made without a principal; their events name nobody.
	// Defaults to false.
	AllowAnonymous bool
	// AuditRetention is how long the events of changes are kept; below zero for ever.
	// Defaults to 90 days.
	AuditRetention time.Duration
	// Logger gets what no caller is told; never a secret. Defaults to discarding.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.LongestToken = cmp.Or(o.LongestToken, 31*24*time.Hour)
	o.CacheSize = cmp.Or(o.CacheSize, 50_000)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, time.Second)
	o.Timeout = cmp.Or(o.Timeout, 2*time.Second)
	o.AuditRetention = cmp.Or(o.AuditRetention, 90*24*time.Hour)
	return o
}

func (o Options) validate() error {
	if problem.IsNil(o.Keys) || o.Keys.Keys().empty() {
		return invalid("options.keys", "is nil or has none; pass a KeySource, such as WatchKeys or KeysFromEnvironment give")
	}
	if reason := ddb.CheckSource(o.Now); reason != "" {
		return invalid("options.now", "%s", reason)
	}
	if o.CacheSize < 0 {
		return invalid("options.cache_size", "is %d; give how many tokens to remember, or 0 for the default", o.CacheSize)
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"longest_token", o.LongestToken}, {"request_timeout", o.RequestTimeout}, {"timeout", o.Timeout}} {
		if d.value < 0 {
			return invalid("options."+d.field, "is %v; give a positive duration, or 0 for the default", d.value)
		}
	}
	if o.Principal != "" {
		if reason := trail.CheckPrincipal(o.Principal); reason != "" {
			return invalid("options.principal", "%s", reason)
		}
	}
	return nil
}
