package credentials

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/keeper/internal/fixture"
)

func TestKeySetComesBackFromItsDocument(t *testing.T) {
	set, err := NewKeySet(chance(3), fixtureNow)
	require.NoError(t, err)
	read, err := ParseKeySet([]byte(set.Document().Reveal()))
	require.NoError(t, err)
	assert.Equal(t, set.Document().Reveal(), read.Document().Reveal())
	signer := read.Signer(fixtureNow)
	assert.Equal(t, EdDSA, signer.Algorithm())
	assert.True(t, signer.Public().Equal(set.Signer(fixtureNow).Public()))
}

func TestKeyDocumentsThatAreNone(t *testing.T) {
	key := base64.StdEncoding.EncodeToString(make([]byte, 32))
	good := fmt.Sprintf(`{"id":"k","key":%q}`, key)
	document := func(signing, peppers string) string {
		return fmt.Sprintf(`{"signing":[%s],"peppers":[%s]}`, signing, peppers)
	}
	_, err := ParseKeySet([]byte(document(good, good)))
	require.NoError(t, err)
	hidden := "c2VjcmV0LXZhbHVlLXRoYXQtbXVzdC1ub3QtYmUtc2hvd24="
	for name, text := range map[string]string{
		"nothing":            "",
		"no JSON":            hidden,
		"a list":             "[]",
		"no peppers":         document(good, ""),
		"no signing keys":    document("", good),
		"two of one id":      document(good+","+good, good),
		"no id":              document(fmt.Sprintf(`{"key":%q}`, key), good),
		"a colon in an id":   document(good, fmt.Sprintf(`{"id":"a:b","key":%q}`, key)),
		"a short key":        document(good, `{"id":"k","key":"AAAA"}`),
		"no base64":          document(`{"id":"k","key":"`+hidden+`!"}`, good),
		"another algorithm":  document(fmt.Sprintf(`{"id":"k","algorithm":"HS256","key":%q}`, key), good),
		"a pepper's":         document(good, fmt.Sprintf(`{"id":"k","algorithm":"EdDSA","key":%q}`, key)),
		"an unknown field":   document(`{"id":"k","seed":"`+hidden+`"}`, good),
		"a number for a key": document(`{"id":"k","key":12}`, good),
		"no time":            document(`{"id":"k","created":"`+hidden+`","key":"x"}`, good),
		"something behind":   document(good, good) + hidden,
		"17 keys":            document(strings.Repeat(good+",", 16)+good, good),
	} {
		_, err := ParseKeySet([]byte(text))
		var v *ValidationError
		require.ErrorAs(t, err, &v, name)
		assert.NotContains(t, err.Error(), hidden[:12], name)
	}
}

// A new key verifies at once and signs when every process knows it; an old one verifies
// for as long as the longest token.
func TestKeysRotateWithoutDowntime(t *testing.T) {
	const longest = 7 * 24 * time.Hour
	first, err := NewKeySet(chance(4), fixtureNow)
	require.NoError(t, err)
	old := first.Signer(fixtureNow).ID
	assert.Equal(t, old, first.Signer(fixtureNow.Add(-time.Hour)).ID, "the only one signs at once")

	rotated := fixtureNow.Add(30 * 24 * time.Hour)
	second, err := first.Rotated(chance(5), rotated, longest)
	require.NoError(t, err)
	assert.Equal(t, old, second.Signer(rotated.Add(KeyDelay-time.Second)).ID)
	assert.Equal(t, old, second.Pepper(rotated.Add(KeyDelay-time.Second)).ID)
	fresh := second.Signer(rotated.Add(KeyDelay)).ID
	assert.NotEqual(t, old, fresh)
	assert.Equal(t, fresh, second.Pepper(rotated.Add(KeyDelay)).ID)
	for _, id := range []string{old, fresh} {
		_, ok := second.Verifier(id)
		assert.True(t, ok, id)
	}
	_, ok := second.Verifier("nobody")
	assert.False(t, ok)

	for _, tc := range []struct {
		after time.Duration
		kept  bool
	}{{KeyDelay + longest, true}, {KeyDelay + longest + time.Second, false}} {
		third, err := second.Rotated(chance(6), rotated.Add(tc.after), longest)
		require.NoError(t, err)
		_, ok = third.Verifier(old)
		assert.Equal(t, tc.kept, ok, "%v after its successor", tc.after)
		assert.Len(t, third.peppers, 3, "hashes name their peppers")
	}
}

// Keys are named after the second in which they are made: another rotation within that is
// told to wait for the next.
func TestKeysRotateOnceASecond(t *testing.T) {
	set, err := NewKeySet(chance(1), fixtureNow)
	require.NoError(t, err)
	_, err = set.Rotated(chance(2), fixtureNow.Add(100*time.Millisecond), time.Hour)
	var v *ValidationError
	require.ErrorAs(t, err, &v)
	assert.Equal(t, "keys", v.Field)
	assert.Contains(t, v.Reason, "rotate again a second later")
	next, err := set.Rotated(chance(2), fixtureNow.Add(time.Second), time.Hour)
	require.NoError(t, err)
	assert.NotEqual(t, set.peppers[0].ID, next.peppers[1].ID)
}

// A set of sixteen peppers, or signing keys, is full until one is taken out.
func TestFullKeySetsAreRefused(t *testing.T) {
	set, err := NewKeySet(chance(11), fixtureNow)
	require.NoError(t, err)
	at := fixtureNow
	rotate := func(longest time.Duration) error {
		at = at.Add(25 * time.Hour)
		next, err := set.Rotated(chance(byte(at.Unix())), at, longest)
		if err == nil {
			set = next
		}
		return err
	}
	for range MaxKeys - 1 {
		require.NoError(t, rotate(time.Hour))
	}
	var v *ValidationError
	require.ErrorAs(t, rotate(time.Hour), &v)
	assert.Equal(t, "keys.peppers", v.Field)
	assert.Contains(t, v.Reason, "remove the oldest")
	set.peppers = set.peppers[1:]
	require.NoError(t, rotate(time.Hour))
	assert.Len(t, set.peppers, MaxKeys)

	set, err = NewKeySet(chance(12), at)
	require.NoError(t, err)
	for err == nil {
		err = rotate(365 * 24 * time.Hour)
		if len(set.peppers) == MaxKeys { // of signing keys, there are as many
			set.peppers = set.peppers[1:]
		}
	}
	require.ErrorAs(t, err, &v)
	assert.Equal(t, "keys.signing", v.Field)
}

// A hash names its pepper: secrets log in under an old one, and are hashed anew under the
// new one at that.
func TestPeppersRotate(t *testing.T) {
	w := newWorld(t)
	c := w.create(w.a, orgO, "")
	old := w.attribute(clientKey(c.ClientID), attrHash)
	rotated, err := w.keys.Rotated(chance(7), w.clock.Now().Add(-time.Hour), time.Hour)
	require.NoError(t, err)
	next := w.node(func(o *Options) { o.Keys = rotated })
	_, err = next.Verify(t.Context(), c.ClientID, c.Secret)
	require.NoError(t, err)
	hash := w.attribute(clientKey(c.ClientID), attrHash)
	assert.NotEqual(t, old, hash)
	assert.True(t, strings.HasPrefix(hash, "v1:"+rotated.Pepper(w.clock.Now()).ID+":"), hash)
	_, err = next.Verify(t.Context(), c.ClientID, c.Secret)
	require.NoError(t, err)
	_, err = w.a.Verify(t.Context(), c.ClientID, c.Secret)
	require.ErrorIs(t, err, ErrInvalidCredentials, "a process without the pepper refuses")
	assert.Contains(t, w.log.String(), "a hash names a pepper that is not among the keys")
}

// A file of keys is read again without a restart; a bad one changes nothing and is told.
func TestKeysFollowTheirFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	first, err := NewKeySet(chance(8), fixtureNow)
	require.NoError(t, err)
	second, err := first.Rotated(chance(9), fixtureNow.Add(time.Hour), time.Hour)
	require.NoError(t, err)
	write(first.Document().Reveal())
	synctest.Test(t, func(t *testing.T) {
		var log fixture.Log
		logged := func() int { return strings.Count(log.String(), "level=") }
		keys, err := WatchKeys(t.Context(), KeysFile(path), &WatchOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		defer keys.Close()
		tick := func() {
			<-time.After(10 * time.Second) // the bubble's own time
			synctest.Wait()
		}
		is := func(want *KeySet) {
			t.Helper()
			assert.Equal(t, want.Document().Reveal(), keys.Keys().Document().Reveal())
		}
		tick()
		is(first)
		assert.Zero(t, logged(), "nothing changed")
		write("{")
		tick()
		tick()
		is(first)
		require.Error(t, keys.Err())
		require.Equal(t, 1, logged(), "logged once")
		write(second.Document().Reveal())
		tick()
		is(second)
		require.NoError(t, keys.Err())
		require.NoError(t, os.Remove(path))
		tick()
		is(second)
		require.ErrorIs(t, keys.Err(), os.ErrNotExist)
		write(second.Document().Reveal())
		tick()
		require.NoError(t, keys.Err())
		require.Equal(t, 4, logged())
		keys.Close()
		keys.Close()
	})
}

// A loader may use the memory of its last document for the next one.
func TestKeysFollowALoaderThatUsesItsMemoryAgain(t *testing.T) {
	first, err := NewKeySet(chance(8), fixtureNow)
	require.NoError(t, err)
	second, err := NewKeySet(chance(9), fixtureNow)
	require.NoError(t, err)
	require.Len(t, second.Document().Reveal(), len(first.Document().Reveal()))
	var memory []byte
	var document atomic.Pointer[KeySet]
	document.Store(first)
	load := func(context.Context) ([]byte, error) {
		memory = append(memory[:0], document.Load().Document().Reveal()...)
		return memory, nil
	}
	synctest.Test(t, func(t *testing.T) {
		keys, err := WatchKeys(t.Context(), load, nil)
		require.NoError(t, err)
		defer keys.Close()
		for _, set := range []*KeySet{second, first} {
			document.Store(set)
			<-time.After(10 * time.Second) // the bubble's own time
			synctest.Wait()
			assert.Equal(t, set.Document().Reveal(), keys.Keys().Document().Reveal())
		}
	})
}

func TestWatchNeedsGoodKeysToBegin(t *testing.T) {
	broken := errors.New("broken")
	for name, load := range map[string]KeyLoader{
		"none":        nil,
		"a failure":   func(context.Context) ([]byte, error) { return nil, broken },
		"no document": func(context.Context) ([]byte, error) { return []byte("x"), nil },
		"no file":     KeysFile(filepath.Join(t.TempDir(), "none")),
	} {
		_, err := WatchKeys(t.Context(), load, nil)
		assert.Error(t, err, name)
	}
	_, err := WatchKeys(t.Context(), KeysFile("x"), &WatchOptions{Interval: KeyDelay})
	require.ErrorAs(t, err, new(*ValidationError))
}

func TestKeysFromTheEnvironment(t *testing.T) {
	set, err := NewKeySet(nil, fixtureNow)
	require.NoError(t, err)
	t.Setenv("KEEPER_KEYS", set.Document().Reveal())
	read, err := KeysFromEnvironment("KEEPER_KEYS")
	require.NoError(t, err)
	assert.Equal(t, set.Document().Reveal(), read.Document().Reveal())
	_, err = KeysFromEnvironment("KEEPER_NO_KEYS")
	require.ErrorContains(t, err, "KEEPER_NO_KEYS")
}
