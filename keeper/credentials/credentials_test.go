package credentials

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/keeper/internal/fixture"
)

// Nothing but keys and a name need be given.
func TestStoreWithDefaultOptions(t *testing.T) {
	w := newWorld(t)
	s, err := New(w.client, w.table, &Options{Keys: w.keys, Principal: tester})
	require.NoError(t, err)
	c := w.create(s, orgO, "")
	_, err = s.Verify(t.Context(), c.ClientID, c.Secret)
	require.NoError(t, err)
	for name, o := range map[string]*Options{
		"none": nil, "no keys": {}, "a negative cache": {Keys: w.keys, CacheSize: -1}, "a negative time": {Keys: w.keys, Timeout: -1},
		"a name of nobody": {Keys: w.keys, Principal: "\x00"},
	} {
		_, err := New(w.client, w.table, o)
		require.ErrorAs(t, err, new(*ValidationError), name)
	}
	_, err = New(nil, w.table, &Options{Keys: w.keys})
	require.ErrorAs(t, err, new(*ValidationError))
	_, err = New(w.client, "x y", &Options{Keys: w.keys})
	require.ErrorAs(t, err, new(*ValidationError))
	_, err = (&Store{}).Verify(t.Context(), c.ClientID, c.Secret)
	require.ErrorAs(t, err, new(*ValidationError))
	_, err = s.Verify(nil, c.ClientID, c.Secret) //nolint:staticcheck // what the test is about
	require.ErrorAs(t, err, new(*ValidationError))
}

func TestClientIDs(t *testing.T) {
	assert.Equal(t, "org-"+orgO, ClientID(orgO, ""))
	assert.Equal(t, "org-"+orgO+"-app-"+appA, ClientID(orgO, appA))
	for _, app := range []string{"", "a", appA, "x-app-y", strings.Repeat("z", 64)} {
		org, parsed, ok := ParseClientID(ClientID(orgO, app))
		assert.True(t, ok, app)
		assert.Equal(t, [2]string{orgO, app}, [2]string{org, parsed})
	}
	for _, id := range []string{
		"", "org-", orgO, "org-" + orgO[:35], "org-" + orgO + "-", "org-" + orgO + "-app-", "org-" + orgO + "x", "org-" + strings.ToUpper(orgO),
		"org-" + orgO + "-app-a#b", "org-" + orgO + "-app-" + strings.Repeat("z", 65), "app-" + orgO, "org-" + orgO + "\x00",
	} {
		_, _, ok := ParseClientID(id)
		assert.False(t, ok, id)
	}
}

// Nothing but the client's own secret logs in, and every refusal is the same.
func TestWrongCredentialsAreRefusedAlike(t *testing.T) {
	w := newWorld(t)
	o, p := w.create(w.a, orgO, ""), w.create(w.a, orgP, "")
	changed := []byte(o.Secret.Reveal())
	changed[len(changed)-1] ^= 1
	for name, try := range map[string]struct{ id, secret string }{
		"another client's secret": {o.ClientID, p.Secret.Reveal()},
		"a changed byte":          {o.ClientID, string(changed)},
		"a byte less":             {o.ClientID, o.Secret.Reveal()[1:]},
		"none":                    {o.ClientID, ""},
		"the hash itself":         {o.ClientID, w.attribute(clientKey(o.ClientID), attrHash)},
		"too long":                {o.ClientID, strings.Repeat("x", 129)},
		"an unknown client":       {ClientID(orgO, "nobody"), o.Secret.Reveal()},
		"no client's id":          {"x", o.Secret.Reveal()},
		"another case":            {strings.ToUpper(o.ClientID), o.Secret.Reveal()},
	} {
		_, err := w.a.Verify(t.Context(), try.id, NewSecret(try.secret))
		assert.Equal(t, ErrInvalidCredentials, err, name)
	}
}

// A secret works beside its successor until its grace ends, to the second.
func TestRotationWithGrace(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		first := w.create(w.a, orgO, appA)
		start := w.clock.Now()
		r, second := w.rotate(w.a, orgO, appA, 24)
		assert.Equal(t, start.Add(24*time.Hour), r.GraceUntil)
		assert.False(t, r.OldestDropped)
		assert.Equal(t, int64(1), r.Version, "refresh tokens go on")
		w.works(true, second, "the new one at once")
		w.clock.Set(start.Add(86_399 * time.Second))
		w.works(true, first, "the last second of the grace")
		w.clock.Set(start.Add(86_400 * time.Second))
		w.works(false, first, "the end of the grace")
		w.works(true, second, "the new one after the grace")

		start = w.clock.Now()
		r, third := w.rotate(w.b, orgO, appA, 168)
		assert.False(t, r.OldestDropped, "it had ended by itself")
		w.clock.Set(start.Add(time.Hour))
		r, fourth := w.rotate(w.a, orgO, appA, 1)
		assert.True(t, r.OldestDropped)
		w.works(false, second, "the oldest of three")
		w.works(true, third, "the second newest")
		w.works(true, fourth, "the newest")
		issued, err := w.b.Create(t.Context(), orgO, appA)
		require.NoError(t, err)
		assert.False(t, issued.Created)
		w.works(true, third, "during the grace, after a PUT")
		w.works(true, fourth, "during the grace, after a PUT")
	})
}

// Without grace nothing older works, and refresh tokens of an older version are refused.
func TestRotationWithoutGrace(t *testing.T) {
	w := newWorld(t)
	first := w.create(w.a, orgO, "")
	_, second := w.rotate(w.a, orgO, "", 1)
	r, third := w.rotate(w.a, orgO, "", 0)
	assert.Zero(t, r.GraceUntil)
	assert.True(t, r.OldestDropped)
	assert.Equal(t, int64(2), r.Version)
	w.works(false, first, "the oldest")
	w.works(false, second, "the former")
	w.works(true, third, "the new one")
	now, err := w.b.Lookup(t.Context(), third.ClientID)
	require.NoError(t, err)
	assert.Equal(t, int64(2), now.Version)
}

// TestASecretThatNobodyFetchedIsReplaced: the one in use outlives a lost retrieval token, and the
// token of the secret that nobody had fetches nothing.
func TestASecretThatNobodyFetchedIsReplaced(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		inUse := w.create(w.a, orgO, "")
		lost, err := w.a.Rotate(ctx, orgO, "", 24)
		require.NoError(t, err)
		w.clock.Advance(RetrievalTTL + time.Minute)
		again, err := w.b.Rotate(ctx, orgO, "", 24)
		require.NoError(t, err)
		assert.False(t, again.OldestDropped)
		assert.Equal(t, w.clock.Now().Add(24*time.Hour), again.GraceUntil)
		w.works(true, inUse, "what every client has")
		_, err = w.a.Retrieve(ctx, orgO, "", lost.Token)
		require.ErrorIs(t, err, ErrTokenUsed)
		last := w.retrieve(w.a, again.Issued)
		w.works(true, last, "the new one")
		w.clock.Advance(24 * time.Hour)
		w.works(false, inUse, "after its grace")

		_, err = w.a.Rotate(ctx, orgO, "", 1)
		require.NoError(t, err)
		w.clock.Advance(time.Hour)
		over, err := w.a.Rotate(ctx, orgO, "", 1)
		require.NoError(t, err)
		assert.Zero(t, over.GraceUntil, "a grace that is over does not begin again")
		w.works(false, last, "its grace was over")
		none, err := w.a.Rotate(ctx, orgO, "", 0)
		require.NoError(t, err)
		w.works(true, w.retrieve(w.b, none.Issued), "the last")
	})
}

func TestRotationRefusesBadInput(t *testing.T) {
	w := newWorld(t)
	w.create(w.a, orgO, "")
	for _, hours := range []int{-1, 169} {
		_, err := w.a.Rotate(t.Context(), orgO, "", hours)
		var v *ValidationError
		require.ErrorAs(t, err, &v)
		assert.Equal(t, "grace_period_hours", v.Field)
	}
	_, err := w.a.Rotate(t.Context(), orgO, "nobody", 1)
	require.ErrorIs(t, err, ErrNotFound)
	_, err = w.a.Rotate(t.Context(), "x", "", 1)
	require.ErrorAs(t, err, new(*ValidationError))
}

// Of two rotations at the same time one wins, and its secret works.
func TestConcurrentRotations(t *testing.T) {
	w := newWorld(t)
	first := w.create(w.a, orgO, "")
	gate := fixture.NewGate(2)
	w.db.SetFaults(gate.Before("TransactWriteItems"))
	var mu sync.Mutex
	var won []Rotation
	var lost []error
	inParallel(t, func(s *Store) error {
		r, err := s.Rotate(t.Context(), orgO, "", 24)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			lost = append(lost, err)
			assert.Zero(t, r, "a loser has nothing in its hands")
		} else {
			won = append(won, r)
		}
		return nil
	}, w.a, w.b)
	require.Len(t, won, 1)
	require.Len(t, lost, 1)
	require.ErrorIs(t, lost[0], ErrConflict)
	w.works(true, w.retrieve(w.a, won[0].Issued), "the winner's")
	w.works(true, first, "the former, in its grace")
}

// What is revoked stays so until somebody rotates; what is deleted begins anew. Tokens of
// before stay refused in both.
func TestRevocationAndDeletionOfCredentials(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		first := w.create(w.a, orgO, appA)
		token := TokenRef{ID: "t1", Session: "s1", ClientID: first.ClientID, Version: 1}
		revoked, err := w.a.Revoked(t.Context(), token)
		require.NoError(t, err)
		assert.False(t, revoked)

		require.NoError(t, w.a.Revoke(t.Context(), orgO, appA))
		require.NoError(t, w.b.Revoke(t.Context(), orgO, appA), "again")
		w.works(false, first, "after its revocation")
		revoked, err = w.a.Revoked(t.Context(), token)
		require.NoError(t, err)
		assert.True(t, revoked, "at once where it was revoked")
		_, err = w.b.Lookup(t.Context(), first.ClientID)
		require.ErrorIs(t, err, ErrNotFound)
		issued, err := w.b.Create(t.Context(), orgO, appA)
		require.NoError(t, err)
		assert.False(t, issued.Created, "a PUT brings nothing back")
		status, err := w.b.Status(t.Context(), orgO, appA)
		require.NoError(t, err)
		assert.False(t, status.RevokedAt.IsZero())

		_, second := w.rotate(w.b, orgO, appA, 24)
		w.works(true, second, "after a rotation")
		w.works(false, first, "revoked for good")

		require.NoError(t, w.a.Delete(t.Context(), orgO, appA))
		require.NoError(t, w.a.Delete(t.Context(), orgO, appA), "again")
		require.NoError(t, w.a.Delete(t.Context(), orgP, ""), "nothing there")
		w.works(false, second, "after its deletion")
		_, err = w.a.Rotate(t.Context(), orgO, appA, 0)
		require.ErrorIs(t, err, ErrNotFound)
		third := w.create(w.b, orgO, appA)
		w.works(true, third, "begun anew")
		identity, err := w.b.Lookup(t.Context(), third.ClientID)
		require.NoError(t, err)
		for _, v := range []int64{1, 2} {
			revoked, err = w.b.Revoked(t.Context(), TokenRef{ID: "t2", ClientID: third.ClientID, Version: v})
			require.NoError(t, err)
			assert.True(t, revoked, "a token of version %d", v)
		}
		revoked, err = w.b.Revoked(t.Context(), TokenRef{ID: "t3", ClientID: third.ClientID, Version: identity.Version})
		require.NoError(t, err)
		assert.False(t, revoked, "a token of now")
	})
}

// Changes need somebody who makes them, and are refused before anything is read.
func TestChangesNeedAName(t *testing.T) {
	w := newWorld(t)
	nobody := w.node(func(o *Options) { o.Principal = "" })
	before := w.db.Meter()
	for name, err := range map[string]error{
		"Create":    second(nobody.Create(t.Context(), orgO, "")),
		"Rotate":    second(nobody.Rotate(t.Context(), orgO, "", 0)),
		"Revoke":    nobody.Revoke(t.Context(), orgO, ""),
		"CreateKey": second(nobody.CreateKey(t.Context(), "k")),
		"RevokeKey": nobody.RevokeKey(t.Context(), "k"),
	} {
		var v *ValidationError
		require.ErrorAs(t, err, &v, name)
		assert.Equal(t, "principal", v.Field, name)
	}
	assert.Equal(t, before.Requests(), w.db.Meter().Requests())
	_, err := nobody.As("bob@example.com").Create(t.Context(), orgO, "")
	require.NoError(t, err)
}

func second[T any](_ T, err error) error { return err }

// A store that does not answer is never a wrong secret, and never a good token.
func TestStoreThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // whose time stands while something is done
		w := newWorld(t, func(o *Options) { o.Timeout, o.RequestTimeout = 50*time.Millisecond, 20*time.Millisecond })
		c := w.create(w.a, orgO, "")
		w.db.SetFaults(fixture.Down)
		for name, err := range map[string]error{
			"Verify":        second(w.a.Verify(t.Context(), c.ClientID, c.Secret)),
			"Lookup":        second(w.a.Lookup(t.Context(), c.ClientID)),
			"Retrieve":      second(w.a.Retrieve(t.Context(), orgO, "", NewSecret("x"))),
			"Revoked":       second(w.a.Revoked(t.Context(), TokenRef{ID: "x"})),
			"RevokeToken":   w.a.RevokeToken(t.Context(), "x", w.clock.Now().Add(time.Hour)),
			"RevokeSession": w.a.RevokeSession(t.Context(), "x", w.clock.Now().Add(time.Hour)),
			"VerifyKey":     second(w.a.VerifyKey(t.Context(), NewSecret("x"))),
			"Rotate":        second(w.a.Rotate(t.Context(), orgO, "", 0)),
			"Create":        second(w.a.Create(t.Context(), orgP, "")),
		} {
			require.ErrorIs(t, err, ErrUnavailable, name)
			assert.False(t, errors.Is(err, ErrInvalidCredentials), name)
		}
		revoked, _ := w.a.Revoked(t.Context(), TokenRef{ID: "x"})
		assert.True(t, revoked, "whoever looks at the answer alone refuses too")
	})
}

// What cannot be a client's id is not asked for, and what cannot be a secret is not hashed.
func TestLoginsThatCannotBeCostNothing(t *testing.T) {
	w := newWorld(t)
	c := w.create(w.a, orgO, "")
	before, meter := w.a.Stats(), w.db.Meter()
	_, err := w.a.Verify(t.Context(), strings.Repeat("x", 5000), c.Secret)
	require.Equal(t, ErrInvalidCredentials, err)
	assert.Zero(t, w.db.Meter().Sub(meter).Requests())
	_, err = w.a.Verify(t.Context(), c.ClientID, NewSecret(strings.Repeat("x", maxSecret+1)))
	require.Equal(t, ErrInvalidCredentials, err)
	assert.Equal(t, before.Hashes, w.a.Stats().Hashes)
}

// With an organisation end the credentials of all its apps, also of those that nobody put;
// those of others stay.
func TestCredentialsOfAppsEndWithTheirOrganisation(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	for _, org := range []string{orgO, orgP} {
		for _, app := range []string{"", appA, "never-put"} {
			_, err := w.a.Create(ctx, org, app)
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.a.Revoke(ctx, orgO, appA))
	for range 2 {
		require.NoError(t, w.b.Delete(ctx, orgO, ""))
	}
	for _, app := range []string{"", appA, "never-put"} {
		issued, err := w.b.Create(ctx, orgO, app)
		require.NoError(t, err)
		assert.True(t, issued.Created, "%q began anew", app)
		issued, err = w.b.Create(ctx, orgP, app)
		require.NoError(t, err)
		assert.False(t, issued.Created, "%q of another", app)
	}
	require.NoError(t, w.b.Delete(ctx, orgO, appA))
	issued, err := w.b.Create(ctx, orgO, "never-put")
	require.NoError(t, err)
	assert.False(t, issued.Created, "an app takes no other with it")
}
