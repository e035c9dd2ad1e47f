package tokens

import (
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// turning is a source whose keys can be others.
type turning struct {
	set atomic.Pointer[credentials.KeySet]
}

func (s *turning) Keys() *credentials.KeySet { return s.set.Load() }

// document is a set of keys, by their ids and the seeds of what signs.
func document(t *testing.T, seeds map[string]byte) *credentials.KeySet {
	t.Helper()
	key := func(seed byte) string { return fmt.Sprintf("%s%c=", zeros, 'A'+4*(seed%16)) }
	signing := ""
	for id, seed := range seeds {
		if signing != "" {
			signing += ","
		}
		signing += fmt.Sprintf(`{"id":%q,"key":%q}`, id, key(seed))
	}
	set, err := credentials.ParseKeySet([]byte(`{"signing":[` + signing + `],"peppers":[{"id":"p","key":"` + key(0) + `"}]}`))
	require.NoError(t, err)
	return set
}

const zeros = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" // of 32 bytes but for the last, in base64

// readTwice signs a token and reads it until it is known.
func (b *bench) readTwice(t *testing.T, c Claims) credentials.Secret {
	t.Helper()
	text, err := b.Sign(c)
	require.NoError(t, err)
	hits, misses := b.Stats()
	for range 2 {
		read, err := b.Parse(text)
		require.NoError(t, err)
		require.Equal(t, c, read)
	}
	after, checked := b.Stats()
	require.Equal(t, []int64{1, 1}, []int64{after - hits, checked - misses}, "the second time it was known")
	return text
}

// What is known is the sum of a token, by which nobody is let in.
func TestTokensAreNotKept(t *testing.T) {
	b := newBench(t)
	text := b.readTwice(t, claims())
	assert.Equal(t, [][sha256.Size]byte{sha256.Sum256([]byte(text.Reveal()))}, b.verified.Keys())
}

// A clock that is set back refuses what it refused before.
func TestKnownTokenIsNotInForceBeforeItsTime(t *testing.T) {
	b := newBench(t)
	text := b.readTwice(t, claims())
	b.now = now.Add(-clockSkew - time.Second)
	_, err := b.Parse(text)
	require.Equal(t, ErrInvalid, err, "issued in the future")

	b.now = now
	key := b.keys.Signer(now)
	later := b.forge(t, jwt.SigningMethodEdDSA, key.Private(), map[string]any{"alg": "EdDSA", "kid": key.ID}, map[string]any{
		"iss": issuer, "aud": audience, "sub": claims().ClientID, "jti": "j", "sid": "s", "cv": 1, "iat": now.Unix(), "nbf": now.Unix(),
		"exp": now.Add(time.Hour).Unix(), "type": "access", "org_id": org, "app_id": "app-batch", "scope": "app",
	})
	for range 2 {
		_, err = b.Parse(credentials.NewSecret(later))
		require.NoError(t, err)
	}
	b.now = now.Add(-time.Second)
	_, err = b.Parse(credentials.NewSecret(later))
	require.Equal(t, ErrInvalid, err, "before nbf")
}

// A token goes with its key: when that is taken out, or another has its name.
func TestKnownTokenEndsWithItsKey(t *testing.T) {
	b, source := newBench(t), &turning{}
	source.set.Store(document(t, map[string]byte{"first": 1, "second": 2}))
	b.Codec = b.codec(t, source)
	text := b.readTwice(t, claims())
	kid := source.Keys().Signer(b.now).ID
	other := map[string]string{"first": "second", "second": "first"}[kid]
	for name, keys := range map[string]map[string]byte{
		"its key is gone":                     {other: 3},
		"another key has its name":            {kid: 4, other: 3},
		"its key has the other's name":        {other: map[string]byte{"first": 1, "second": 2}[kid]},
		"its key was exchanged for another's": {kid: map[string]byte{"first": 2, "second": 1}[kid]},
	} {
		good := source.Keys()
		source.set.Store(document(t, keys))
		_, err := b.Parse(text)
		require.Equal(t, ErrInvalid, err, name)
		source.set.Store(good)
		_, err = b.Parse(text)
		require.NoError(t, err, "the key is back")
	}
	more := map[string]byte{"first": 1, "second": 2, "third": 3}
	source.set.Store(document(t, more))
	hits, _ := b.Stats()
	_, err := b.Parse(text)
	require.NoError(t, err)
	after, _ := b.Stats()
	assert.Equal(t, hits+1, after, "another set with the same key")
}

// No byte of a known token can be another.
func TestChangedTokenIsNotTheKnownOne(t *testing.T) {
	b := newBench(t)
	good := b.readTwice(t, claims()).Reveal()
	hits, _ := b.Stats()
	for i := range good {
		for _, flip := range []byte{1, 2, 4, 32} {
			bad := []byte(good)
			bad[i] ^= flip
			_, err := b.Parse(credentials.NewSecret(string(bad)))
			require.Equal(t, ErrInvalid, err, "byte %d", i)
		}
	}
	for _, bad := range []string{good + " ", good + "=", " " + good, good[:len(good)-1], good + "\x00"} {
		_, err := b.Parse(credentials.NewSecret(bad))
		require.Equal(t, ErrInvalid, err)
	}
	after, _ := b.Stats()
	assert.Equal(t, hits, after)
	assert.Equal(t, 1, b.verified.Len(), "what is not genuine is not kept")
}

// Nothing is kept but so many access tokens, the most recent ones.
func TestKnownTokensAreBounded(t *testing.T) {
	b := newBench(t)
	codec, err := New(Options{Keys: b.keys, Issuer: issuer, Audience: audience, Now: func() time.Time { return b.now }, Remember: 3})
	require.NoError(t, err)
	b.Codec = codec
	var all []credentials.Secret
	for i := range 5 {
		c := claims()
		c.ID = fmt.Sprint(i)
		all = append(all, b.readTwice(t, c))
		assert.Equal(t, min(i+1, 3), b.verified.Len())
	}
	hits, misses := b.Stats()
	for i := range all {
		_, err := b.Parse(all[len(all)-1-i])
		require.NoError(t, err)
	}
	after, checked := b.Stats()
	assert.Equal(t, []int64{3, 2}, []int64{after - hits, checked - misses})

	refresh := claims()
	refresh.Kind = Refresh
	text, err := b.Sign(refresh)
	require.NoError(t, err)
	keys := b.verified.Keys()
	_, err = b.Parse(text)
	require.NoError(t, err)
	assert.Equal(t, keys, b.verified.Keys(), "a refresh token is used once in an hour")
	_, err = b.ParseLate(all[0])
	require.NoError(t, err)
	assert.Equal(t, keys, b.verified.Keys())
}
