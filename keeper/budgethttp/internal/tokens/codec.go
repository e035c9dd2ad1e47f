package tokens

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// ErrInvalid means that a token is not genuine or not valid now. It does not tell the reason.
var ErrInvalid = errors.New("tokens: invalid token")

// clockSkew is how far in the future a token's issue may be, because another process's clock
// may be ahead. Expiry has no such tolerance.
const clockSkew = 5 * time.Minute

// maxText is the maximal length of a token, in bytes.
const maxText = 4096

// Options configures a Codec.
type Options struct {
	// Keys sign and verify. Required.
	Keys credentials.KeySource
	// Issuer is the iss of tokens. Required.
	Issuer string
	// Audience is the aud of tokens. Required.
	Audience string
	// Now is the clock. Required.
	Now func() time.Time
	// Remember is the maximal number of cached access tokens. Defaults to 10,000.
	Remember int
}

// Codec signs and verifies tokens: JWTs that name their key in kid. The only algorithm is the
// key's, EdDSA. It is safe for concurrent use.
type Codec struct {
	opts     Options
	strict   *jwt.Parser // refuses expired tokens
	late     *jwt.Parser // accepts expired tokens
	verified *verified
}

// New returns a codec. It fails if an option is missing.
func New(o Options) (*Codec, error) {
	if o.Keys == nil || o.Issuer == "" || o.Audience == "" || o.Now == nil {
		return nil, errors.New("tokens: keys, issuer, audience and clock are all needed")
	}
	common := []jwt.ParserOption{jwt.WithValidMethods([]string{credentials.EdDSA}), jwt.WithStrictDecoding()}
	return &Codec{
		opts: o,
		strict: jwt.NewParser(append(common, jwt.WithTimeFunc(o.Now), jwt.WithExpirationRequired(),
			jwt.WithIssuer(o.Issuer), jwt.WithAudience(o.Audience))...),
		late:     jwt.NewParser(append(common, jwt.WithoutClaimsValidation())...),
		verified: newVerified(cmp.Or(max(0, o.Remember), remembered)),
	}, nil
}

// body is the JSON form of a token's claims.
type body struct {
	jwt.RegisteredClaims
	Type    Kind   `json:"type"`
	Org     string `json:"org_id"`
	App     string `json:"app_id,omitempty"`
	Scope   string `json:"scope"`
	Session string `json:"sid"`
	Version int64  `json:"cv"`
}

// Scope returns "org" for a token of an organisation with all its apps, and "app" for a token
// of one app.
func (c Claims) Scope() string {
	if c.App == "" {
		return "org"
	}
	return "app"
}

// Sign returns a token, a JWT, with the claims. It signs with the key that KeySet.Signer selects now, and names
// that key in kid.
func (c *Codec) Sign(claims Claims) (credentials.Secret, error) {
	key := c.opts.Keys.Keys().Signer(c.opts.Now())
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, body{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: c.opts.Issuer, Audience: jwt.ClaimStrings{c.opts.Audience}, Subject: claims.ClientID, ID: claims.ID,
			IssuedAt: jwt.NewNumericDate(claims.Issued), ExpiresAt: jwt.NewNumericDate(claims.Expires),
		},
		Type: claims.Kind, Org: claims.Org, App: claims.App, Scope: claims.Scope(), Session: claims.Session, Version: claims.Version,
	})
	token.Header["kid"] = key.ID
	text, err := token.SignedString(key.Private())
	if err != nil {
		return credentials.Secret{}, fmt.Errorf("tokens: cannot sign: %w", err)
	}
	return credentials.NewSecret(text), nil
}

// Parse verifies a token and returns its claims: it must be genuine, complete and valid now. The caller checks
// its kind. It caches access tokens, counts for Stats, and returns ErrInvalid for any fault.
func (c *Codec) Parse(text credentials.Secret) (Claims, error) {
	if len(text.Reveal()) > maxText {
		return Claims{}, ErrInvalid
	}
	sum := sha256.Sum256([]byte(text.Reveal()))
	if g, ok := c.verified.Get(sum); ok {
		if g.isValid(c.opts.Keys.Keys(), c.opts.Now()) {
			c.verified.hits.Add(1)
			return g.claims, nil
		}
		c.verified.Remove(sum) // verify it again
	}
	c.verified.misses.Add(1)
	g, err := c.parseToken(c.strict, text)
	if err == nil && g.claims.Kind == Access {
		c.verified.Add(sum, g)
	}
	return g.claims, err
}

// ParseLate verifies a token that may have expired, without the cache, and returns its claims. It returns
// ErrInvalid if the token is not genuine or not complete.
func (c *Codec) ParseLate(text credentials.Secret) (Claims, error) {
	if len(text.Reveal()) > maxText {
		return Claims{}, ErrInvalid
	}
	g, err := c.parseToken(c.late, text)
	return g.claims, err
}

// Stats returns how many tokens Parse found in its cache, and how many it verified.
func (c *Codec) Stats() (hits, misses int64) {
	return c.verified.hits.Load(), c.verified.misses.Load()
}

// parseToken verifies a token's signature and claims, and returns the claims with the key and nbf. parser
// decides whether an expired token is valid. It returns ErrInvalid for any fault.
func (c *Codec) parseToken(parser *jwt.Parser, text credentials.Secret) (genuine, error) {
	var b body
	var g genuine
	_, err := parser.ParseWithClaims(text.Reveal(), &b, func(token *jwt.Token) (any, error) {
		key, err := c.keyOf(token)
		if err != nil {
			return nil, err
		}
		g.kid, g.key = key.ID, key.Public()
		return g.key, nil
	})
	if err != nil || !c.isComplete(b) {
		return genuine{}, ErrInvalid
	}
	if b.NotBefore != nil {
		g.notBefore = b.NotBefore.Time
	}
	g.claims = Claims{
		ClientID: b.Subject, Org: b.Org, App: b.App, Kind: b.Type, ID: b.ID, Session: b.Session, Version: b.Version,
		Issued: b.IssuedAt.UTC(), Expires: b.ExpiresAt.UTC(),
	}
	return g, nil
}

// keyOf returns the key that a token names in its header. It returns ErrInvalid for an unknown key, another
// algorithm than the key's, or a critical extension.
func (c *Codec) keyOf(token *jwt.Token) (credentials.SigningKey, error) {
	id, _ := token.Header["kid"].(string)
	key, ok := c.opts.Keys.Keys().Verifier(id)
	_, critical := token.Header["crit"]
	if !ok || critical || token.Method.Alg() != key.Algorithm() {
		return credentials.SigningKey{}, ErrInvalid
	}
	return key, nil
}

// isComplete reports whether the claims of a token are complete, consistent, and of this issuer and audience.
// It is false for a token issued more than clockSkew in the future, but does not compare its end with now.
func (c *Codec) isComplete(b body) bool {
	org, app, ok := credentials.ParseClientID(b.Subject)
	switch {
	case !ok, b.Org != org, b.App != app, b.Scope != (Claims{App: app}).Scope():
		return false
	case b.Issuer != c.opts.Issuer, len(b.Audience) != 1, b.Audience[0] != c.opts.Audience:
		return false
	case b.Type != Access && b.Type != Refresh, b.ID == "", b.Session == "", b.Version < 1:
		return false
	case b.IssuedAt == nil, b.ExpiresAt == nil:
		return false
	}
	return !b.IssuedAt.After(c.opts.Now().Add(clockSkew)) && b.ExpiresAt.After(b.IssuedAt.Time)
}
