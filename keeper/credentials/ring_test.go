package credentials

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/budget"
)

// Provisioning keys are named, listed without their secrets, and revoked one by one.
func TestProvisioningKeys(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		one, err := w.a.CreateKey(ctx, "terraform")
		require.NoError(t, err)
		two, err := w.a.As("bob@example.com").CreateKey(ctx, "console")
		require.NoError(t, err)
		_, err = w.b.CreateKey(ctx, "console")
		require.ErrorIs(t, err, ErrConflict)
		_, err = w.b.CreateKey(ctx, "a#b")
		require.ErrorAs(t, err, new(*ValidationError))

		list, err := w.b.ListKeys(ctx)
		require.NoError(t, err)
		assert.Equal(t, []ProvisioningKey{
			{Name: "console", Created: fixtureNow, CreatedBy: "bob@example.com"},
			{Name: "terraform", Created: fixtureNow, CreatedBy: tester},
		}, list)
		for _, s := range []*Store{w.a, w.b} {
			key, err := s.VerifyKey(ctx, one.Secret)
			require.NoError(t, err)
			assert.Equal(t, "terraform", key.Name)
		}
		for _, wrong := range []Secret{{}, NewSecret("x"), NewSecret(one.Secret.Reveal() + "x")} {
			_, err = w.a.VerifyKey(ctx, wrong)
			require.ErrorIs(t, err, ErrInvalidCredentials)
		}

		require.NoError(t, w.a.RevokeKey(ctx, "terraform"))
		_, err = w.a.VerifyKey(ctx, one.Secret)
		require.ErrorIs(t, err, ErrInvalidCredentials, "at once where it was revoked")
		w.clock.Advance(CacheTTL)
		_, err = w.b.VerifyKey(ctx, one.Secret)
		require.ErrorIs(t, err, ErrInvalidCredentials, "elsewhere when the cache is over")
		_, err = w.b.VerifyKey(ctx, two.Secret)
		require.NoError(t, err, "the other stays")
		require.ErrorIs(t, w.a.RevokeKey(ctx, "nobody"), ErrNotFound)
	})
}

// A key that was made elsewhere works within a second, and strangers cannot have the ring
// read more often than that.
func TestRingIsReadAgainForUnknownKeysOnceASecond(t *testing.T) {
	w := newWorld(t)
	one, err := w.a.CreateKey(t.Context(), "one")
	require.NoError(t, err)
	_, err = w.b.VerifyKey(t.Context(), one.Secret)
	require.NoError(t, err)
	two, err := w.a.CreateKey(t.Context(), "two")
	require.NoError(t, err)
	before := w.db.Meter()
	for range 50 {
		_, err = w.b.VerifyKey(t.Context(), two.Secret)
		require.ErrorIs(t, err, ErrInvalidCredentials)
	}
	assert.Zero(t, w.db.Meter().Sub(before).Requests())
	w.clock.Advance(time.Second)
	_, err = w.b.VerifyKey(t.Context(), two.Secret)
	require.NoError(t, err)
	for range 50 {
		_, err = w.b.VerifyKey(t.Context(), NewSecret("stranger"))
		require.ErrorIs(t, err, ErrInvalidCredentials)
	}
	assert.Equal(t, int64(1), w.db.Meter().Sub(before).Requests())
}

// A key that was made a moment ago works at its first use, though a stranger came just before.
func TestANewKeyWorksAfterAStranger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := ddbmem.New()
		t.Cleanup(db.Close)
		keys, err := NewKeySet(nil, time.Now())
		require.NoError(t, err)
		node := func() *Store {
			s, err := New(db.Client(), "control", &Options{Keys: keys, Principal: tester})
			require.NoError(t, err)
			return s
		}
		k, err := budget.New(db.Client(), budget.Tables{}, nil)
		require.NoError(t, err)
		require.NoError(t, k.Setup().CreateTables(t.Context()))
		a, b := node(), node()
		_, err = b.VerifyKey(t.Context(), NewSecret("stranger"))
		require.ErrorIs(t, err, ErrInvalidCredentials)
		key, err := a.CreateKey(t.Context(), "new")
		require.NoError(t, err)
		<-time.After(10 * time.Millisecond)
		before := db.Meter()
		for range 20 {
			_, err = b.VerifyKey(t.Context(), key.Secret)
			require.NoError(t, err)
		}
		var strangers sync.WaitGroup
		for range 20 {
			strangers.Go(func() {
				_, err := b.VerifyKey(t.Context(), NewSecret("stranger"))
				assert.ErrorIs(t, err, ErrInvalidCredentials)
			})
		}
		strangers.Wait()
		assert.LessOrEqual(t, db.Meter().Sub(before).Requests(), int64(2), "once a second, for all of them")
	})
}

// A ring is full at so many keys, and then it takes so much to read it.
func TestRingIsBounded(t *testing.T) {
	w := newWorld(t)
	hash := strings.Repeat("x", len("v1:20990122T153045:")+64)
	for i := range maxRing - 1 {
		_, err := w.db.Client().PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &w.table, Item: storedKey{
			ProvisioningKey{Name: fmt.Sprintf("organisation-%d", i), Org: orgO, Created: fixtureNow, CreatedBy: tester}, hash,
		}.encodeItem()})
		require.NoError(t, err)
	}
	last, err := w.a.CreateKey(t.Context(), "last")
	require.NoError(t, err)
	_, err = w.a.CreateKey(t.Context(), "one-more")
	require.ErrorAs(t, err, new(*ValidationError))
	before := w.db.Meter()
	_, err = w.b.VerifyKey(t.Context(), last.Secret)
	require.NoError(t, err)
	read := w.db.Meter().Sub(before)
	assert.Equal(t, int64(1), read.Requests())
	t.Logf("%d keys: %v read units", maxRing, read.ReadUnits())
	assert.Less(t, read.ReadUnits(), 70.0)
}
