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

// RetrievalTTL is the life of a retrieval token.
const RetrievalTTL = 10 * time.Minute

// MaxGraceHours is the longest time for which a replaced secret may still work.
const MaxGraceHours = 168

// CacheTTL is how long other processes may accept a revoked token or provisioning key. The
// process that revokes it refuses it at once.
const CacheTTL = 30 * time.Second

// Options configures a Store.
type Options struct {
	// Keys provides the peppers and signing keys. New refuses nil, and a source without keys.
	Keys KeySource
	// Now is the clock. Defaults to the process's clock, corrected by DynamoDB's.
	Now func() time.Time
	// Random is the source of secrets, tokens and keys. Defaults to crypto/rand.Reader.
	Random io.Reader
	// ImportedHash verifies a secret against the hash of another system, such as bcrypt's, see
	// Store.Import. After the first successful login the store replaces the hash with its own.
	// Defaults to nil: imported hashes match no secret.
	ImportedHash func(hash, secret Secret) bool
	// ImportedDecoy is an imported hash without an owner. A login that fails without a call of
	// ImportedHash calls it with this hash, so that the refusal takes equally long whether or
	// not a client has an imported hash. Defaults to an empty one: no such call.
	ImportedDecoy Secret
	// LongestToken is the longest life of a login's tokens: the longest refresh token's plus an
	// access token's. Revocations of clients are kept as long. Defaults to 31 days.
	LongestToken time.Duration
	// CacheSize is the maximal number of cached tokens. Defaults to 50,000, some 20 MB.
	CacheSize int
	// RequestTimeout bounds one request to DynamoDB with the SDK's retries. Defaults to 1 s.
	RequestTimeout time.Duration
	// Timeout bounds one call with all its requests. Defaults to 2 s.
	Timeout time.Duration
	// Principal is the author of administrative changes in audit events. Store.As returns a
	// store with another. Without a principal changes are refused, unless AllowAnonymous is
	// set. Defaults to "".
	Principal string
	// AllowAnonymous allows changes without a principal; their events have no author. Defaults
	// to false.
	AllowAnonymous bool
	// AuditRetention is how long audit events are kept. A negative value keeps them for ever.
	// Defaults to 90 days.
	AuditRetention time.Duration
	// Logger receives the errors that no caller gets, never with a secret. Defaults to
	// discarding.
	Logger *slog.Logger
}

// withDefaults returns a copy of the options with defaults for zero fields. It leaves Keys, Principal and the
// hooks for imported hashes as they are.
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

// validate returns a *ValidationError for the first wrong option, else nil: missing keys, a bad clock or
// principal, or a negative size or time. Zero values are valid, except for Keys.
func (o Options) validate() error {
	if problem.IsNil(o.Keys) || o.Keys.Keys().isEmpty() {
		return invalid("options.keys", "is nil or empty; pass a KeySource, for example from WatchKeys or KeysFromEnvironment")
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
