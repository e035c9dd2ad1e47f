package tokens

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/keeper/credentials"
)

const (
	org      = "550e8400-e29b-41d4-a716-446655440000"
	issuer   = "https://keeper.example.com"
	audience = "budget"
)

var now = time.Date(2099, 1, 23, 15, 30, 45, 0, time.UTC)

// bench is a codec with its keys and a clock that can be set.
type bench struct {
	*Codec
	keys *credentials.KeySet
	now  time.Time
}

func newBench(t *testing.T) *bench {
	t.Helper()
	keys, err := credentials.NewKeySet(nil, now.Add(-time.Hour))
	require.NoError(t, err)
	b := &bench{keys: keys, now: now}
	b.Codec = b.codec(t, keys)
	return b
}

func (b *bench) codec(t *testing.T, keys credentials.KeySource) *Codec {
	t.Helper()
	c, err := New(Options{Keys: keys, Issuer: issuer, Audience: audience, Now: func() time.Time { return b.now }})
	require.NoError(t, err)
	return c
}

// claims are those of an app's access token of an hour.
func claims() Claims {
	return Claims{
		ClientID: credentials.ClientID(org, "app-batch"), Org: org, App: "app-batch", Kind: Access, ID: "jti-1", Session: "sid-1",
		Version: 1, Issued: now, Expires: now.Add(time.Hour),
	}
}

func TestTokenComesBackAsItWasSigned(t *testing.T) {
	b := newBench(t)
	whole := claims()
	whole.ClientID, whole.App, whole.Kind = credentials.ClientID(org, ""), "", Refresh
	for _, c := range []Claims{claims(), whole} {
		text, err := b.Sign(c)
		require.NoError(t, err)
		read, err := b.Parse(text)
		require.NoError(t, err)
		assert.Equal(t, c, read)
		assert.Equal(t, org, read.Org, "the whole id")
	}
}

// A token is in force to its last second, and not at its end.
func TestTokenEndsWithoutTolerance(t *testing.T) {
	b := newBench(t)
	text, err := b.Sign(claims())
	require.NoError(t, err)
	for _, tc := range []struct {
		at   time.Duration
		good bool
	}{{-clockSkew, true}, {-clockSkew - time.Second, false}, {0, true}, {time.Hour - time.Second, true}, {time.Hour, false}, {time.Hour + time.Second, false}} {
		b.now = now.Add(tc.at)
		_, err := b.Parse(text)
		if tc.good {
			require.NoError(t, err, tc.at)
			continue
		}
		assert.Equal(t, ErrInvalid, err, tc.at)
	}
	late, err := b.ParseLate(text)
	require.NoError(t, err, "it is genuine all the same")
	assert.Equal(t, "jti-1", late.ID)
}

// forge signs what a test wants, by the key that signs.
func (b *bench) forge(t *testing.T, method jwt.SigningMethod, key any, header, body map[string]any) string {
	t.Helper()
	token := jwt.New(method)
	token.Header = header
	token.Claims = jwt.MapClaims(body)
	text, err := token.SignedString(key)
	require.NoError(t, err)
	return text
}

// A text that is too long is not read, though it is genuine.
func TestTokensThatAreTooLong(t *testing.T) {
	b := newBench(t)
	key := b.keys.Signer(now)
	for padding, want := range map[int]error{0: nil, 4096: ErrInvalid} {
		text := credentials.NewSecret(b.forge(t, jwt.SigningMethodEdDSA, key.Private(), map[string]any{"alg": "EdDSA", "kid": key.ID}, map[string]any{
			"iss": issuer, "aud": audience, "sub": claims().ClientID, "jti": "j", "sid": "s", "cv": 1, "iat": now.Unix(),
			"exp": now.Add(time.Hour).Unix(), "type": "access", "org_id": org, "app_id": "app-batch", "scope": "app",
			"more": strings.Repeat("x", padding),
		}))
		for name, parse := range map[string]func(credentials.Secret) (Claims, error){"in force": b.Parse, "late": b.ParseLate} {
			_, err := parse(text)
			assert.Equal(t, want, err, "%s with %d bytes more", name, padding)
		}
	}
}

// Whatever is wrong with a token, it is refused, and alike.
func TestTokensThatAreRefused(t *testing.T) {
	b := newBench(t)
	signer := b.keys.Signer(now)
	stranger, err := credentials.NewKeySet(nil, now.Add(-time.Hour))
	require.NoError(t, err)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	header := func(change map[string]any) map[string]any {
		return changed(map[string]any{"alg": "EdDSA", "typ": "JWT", "kid": signer.ID}, change)
	}
	body := func(change map[string]any) map[string]any {
		return changed(map[string]any{
			"iss": issuer, "aud": audience, "sub": credentials.ClientID(org, "app-batch"), "jti": "j", "sid": "s", "cv": 1,
			"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "type": "access", "org_id": org, "app_id": "app-batch", "scope": "app",
		}, change)
	}
	sign := func(h, c map[string]any) string {
		return b.forge(t, jwt.SigningMethodEdDSA, signer.Private(), header(h), body(c))
	}
	_, err = b.Parse(credentials.NewSecret(sign(nil, nil)))
	require.NoError(t, err, "what is changed below is good")

	refused := map[string]string{
		"alg none": b.forge(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, header(map[string]any{"alg": "none"}), body(nil)),
		"alg HS256 by the public key": b.forge(t, jwt.SigningMethodHS256, []byte(signer.Public()),
			header(map[string]any{"alg": "HS256"}), body(nil)),
		"alg HS384":              b.forge(t, jwt.SigningMethodHS384, []byte(signer.Public()), header(map[string]any{"alg": "HS384"}), body(nil)),
		"alg RS256":              b.forge(t, jwt.SigningMethodRS256, rsaKey, header(map[string]any{"alg": "RS256"}), body(nil)),
		"alg of the header only": sign(map[string]any{"alg": "HS384"}, nil),
		"alg of another case":    sign(map[string]any{"alg": "eddsa"}, nil),
		"another's signature":    b.forge(t, jwt.SigningMethodEdDSA, stranger.Signer(now).Private(), header(nil), body(nil)),
		"an unknown kid":         sign(map[string]any{"kid": "nobody"}, nil),
		"no kid":                 sign(map[string]any{"kid": nil}, nil),
		"a kid that is none":     sign(map[string]any{"kid": 1}, nil),
		"a path as kid":          sign(map[string]any{"kid": "../../etc/passwd"}, nil),
		"critical extensions":    sign(map[string]any{"crit": []string{"exp"}}, nil),
		"a key in the header": b.forge(t, jwt.SigningMethodEdDSA, stranger.Signer(now).Private(),
			header(map[string]any{"kid": nil, "jwk": map[string]any{"kty": "OKP"}}), body(nil)),
		"another issuer":         sign(nil, map[string]any{"iss": "https://other.example.com"}),
		"another audience":       sign(nil, map[string]any{"aud": "other"}),
		"two audiences":          sign(nil, map[string]any{"aud": []string{audience, "other"}}),
		"another kind":           sign(nil, map[string]any{"type": "id"}),
		"no client's id":         sign(nil, map[string]any{"sub": "admin"}),
		"another organisation":   sign(nil, map[string]any{"org_id": "6ba7b810-9dad-41d1-80b4-00c04fd430c8"}),
		"another app":            sign(nil, map[string]any{"app_id": "other"}),
		"a wider scope":          sign(nil, map[string]any{"scope": "org"}),
		"a version of a half":    sign(nil, map[string]any{"cv": 1.5}),
		"a version as text":      sign(nil, map[string]any{"cv": "1"}),
		"a version below one":    sign(nil, map[string]any{"cv": 0}),
		"ended a second ago":     sign(nil, map[string]any{"exp": now.Add(-time.Second).Unix(), "iat": now.Add(-time.Hour).Unix()}),
		"ends as text":           sign(nil, map[string]any{"exp": "tomorrow"}),
		"ends before its issue":  sign(nil, map[string]any{"iat": now.Add(2 * time.Minute).Unix(), "exp": now.Add(time.Minute).Unix()}),
		"issued in the future":   sign(nil, map[string]any{"iat": now.Add(time.Hour).Unix(), "exp": now.Add(2 * time.Hour).Unix()}),
		"not before tomorrow":    sign(nil, map[string]any{"nbf": now.Add(24 * time.Hour).Unix()}),
		"empty":                  "",
		"two parts":              "a.b",
		"dots":                   "..",
		"too long":               strings.Repeat("a", maxText+1),
		"with a space":           sign(nil, nil) + " ",
		"with the scheme":        "Bearer " + sign(nil, nil),
		"padded base64":          sign(nil, nil) + "==",
		"the body as it is read": plain(t, header(nil)) + "." + plain(t, body(nil)) + ".",
	}
	for _, claim := range []string{"exp", "iat", "iss", "aud", "jti", "sub", "type", "sid", "cv", "org_id", "app_id", "scope"} {
		refused["without "+claim] = sign(nil, map[string]any{claim: nil})
	}
	for name, text := range refused {
		_, err := b.Parse(credentials.NewSecret(text))
		assert.Equal(t, ErrInvalid, err, name)
	}
}

// plain is a part of a token.
func plain(t *testing.T, part map[string]any) string {
	t.Helper()
	text, err := json.Marshal(part)
	require.NoError(t, err)
	return base64.RawURLEncoding.EncodeToString(text)
}

// changed is a map with values in the place of others; nil takes one out.
func changed(m, change map[string]any) map[string]any {
	for name, v := range change {
		if v == nil {
			delete(m, name)
			continue
		}
		m[name] = v
	}
	return m
}

// No byte of a token can be another: not even those bits of its last letter that no byte
// is made of.
func TestNoByteOfATokenCanBeChanged(t *testing.T) {
	b := newBench(t)
	text, err := b.Sign(claims())
	require.NoError(t, err)
	good := text.Reveal()
	for i := range good {
		for _, flip := range []byte{1, 2, 4, 32} {
			bad := []byte(good)
			bad[i] ^= flip
			_, err := b.Parse(credentials.NewSecret(string(bad)))
			require.Equal(t, ErrInvalid, err, "byte %d", i)
		}
	}
	last := len(good) - 1
	for _, letter := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
		if byte(letter) != good[last] {
			_, err := b.Parse(credentials.NewSecret(good[:last] + string(letter)))
			require.Equal(t, ErrInvalid, err, "the last letter as %c", letter)
		}
	}
}

// Tokens of a key that no longer signs are good for as long as the key is there.
func TestTokensOutliveTheirKeysTurn(t *testing.T) {
	b := newBench(t)
	old, err := b.Sign(claims())
	require.NoError(t, err)
	rotated, err := b.keys.Rotated(nil, now, time.Hour)
	require.NoError(t, err)
	next := b.codec(t, rotated)
	soon, err := next.Sign(claims())
	require.NoError(t, err)
	_, err = b.Parse(soon)
	require.NoError(t, err, "a new key does not sign before others know it")
	b.now = now.Add(credentials.KeyDelay)
	fresh, err := next.Sign(claims())
	require.NoError(t, err)
	for _, text := range []credentials.Secret{old, soon, fresh} {
		_, err = next.Parse(text)
		require.NoError(t, err)
	}
	_, err = b.Parse(fresh)
	require.Equal(t, ErrInvalid, err, "whoever has not read the new key refuses it")
}

func TestCodecNeedsItsOptions(t *testing.T) {
	keys, err := credentials.NewKeySet(nil, now)
	require.NoError(t, err)
	for _, o := range []Options{
		{},
		{Keys: keys, Issuer: issuer, Audience: audience},
		{Keys: keys, Issuer: issuer, Now: time.Now},
		{Keys: keys, Audience: audience, Now: time.Now},
		{Issuer: issuer, Audience: audience, Now: time.Now},
	} {
		_, err := New(o)
		assert.Error(t, err)
	}
}

func FuzzTokens(f *testing.F) {
	keys, err := credentials.NewKeySet(nil, now)
	require.NoError(f, err)
	codec, err := New(Options{Keys: keys, Issuer: issuer, Audience: audience, Now: func() time.Time { return now }})
	require.NoError(f, err)
	text, err := codec.Sign(claims())
	require.NoError(f, err)
	f.Add("")
	f.Add("a.b.c")
	f.Add(strings.Join(strings.Split(text.Reveal(), ".")[:2], ".") + ".")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := codec.Parse(credentials.NewSecret(text))
		assert.Equal(t, ErrInvalid, err)
	})
}

// A token of another issuer or for another audience is none, though its key is the same,
// also where those are read that have expired.
func TestTokensOfAnotherIssuerAreRefused(t *testing.T) {
	b := newBench(t)
	for _, o := range []Options{{Issuer: "https://other.example.com", Audience: audience}, {Issuer: issuer, Audience: "other"}} {
		o.Keys, o.Now = b.keys, func() time.Time { return b.now }
		other, err := New(o)
		require.NoError(t, err)
		text, err := other.Sign(claims())
		require.NoError(t, err)
		_, err = b.Parse(text)
		require.ErrorIs(t, err, ErrInvalid)
		_, err = b.ParseLate(text)
		require.ErrorIs(t, err, ErrInvalid)
	}
}
