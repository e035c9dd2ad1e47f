package admin_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/shared"
)

func nothing(context.Context) error { return nil }

// One at a time does something under a name, in a namespace.
func TestAlone(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := e.repository(t, nil)
		require.NoError(t, admin.New(r).Namespaces.Register(t.Context(), "eu"))
		eu, again := e.namespaced(t, r.Table(), "eu", nil), e.open(t, r.Table(), nil).As("ben")
		err := admin.New(r.As("ann")).Alone(t.Context(), "manifest", nil, func(ctx context.Context) error {
			err := admin.New(again).Alone(ctx, "manifest", nil, nothing)
			require.ErrorIs(t, err, fault.ErrLocked)
			held, _ := errors.AsType[*fault.LockedError](err)
			assert.Equal(t, "ann", held.Holder)
			assert.WithinDuration(t, time.Now().Add(time.Minute), held.Until, 20*time.Second)
			require.NoError(t, admin.New(again).Alone(ctx, "sweeper", nil, nothing), "another name")
			require.NoError(t, admin.New(eu).Alone(ctx, "manifest", nil, nothing), "another namespace")
			return admin.ErrNotFound
		})
		require.Equal(t, admin.ErrNotFound, err, "what it returns")
		require.NoError(t, admin.New(again).Alone(t.Context(), "manifest", nil, nothing))
		item, err := shared.Of(r).Table.Get(t.Context(), "test", schema.Key{PK: "eu/MANIFEST#", SK: "#LEASE"})
		require.NoError(t, err)
		assert.NotNil(t, item)
	})
}

// Whoever is alone is told before anybody else can be, when the table does not answer.
func TestAloneEndsInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memEngine(t)
		r := e.repository(t, nil)
		began := time.Now()
		err := admin.New(r).Alone(t.Context(), "manifest", &admin.AloneOptions{Hold: 30 * time.Second}, func(ctx context.Context) error {
			e.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} })
			<-ctx.Done()
			e.db.SetFaults(nil)
			assert.Equal(t, 25*time.Second, time.Since(began))
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, fault.ErrLost)
		require.ErrorIs(t, err, dynalimit.ErrUnavailable, "why")
		e.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} })
		err = admin.New(r).Alone(t.Context(), "manifest", nil, func(context.Context) error { return errors.New("called") })
		require.ErrorIs(t, err, dynalimit.ErrUnavailable)
		e.db.SetFaults(nil)
	})
}

func TestAloneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := memEngine(t).repository(t, nil)
		told := 0
		require.NoError(t, admin.New(r).Alone(t.Context(), "manifest", nil, func(ctx context.Context) error {
			began := time.Now()
			err := admin.New(r).Alone(ctx, "manifest", &admin.AloneOptions{Wait: 10 * time.Second, OnWait: func(*fault.LockedError) { told++ }}, nothing)
			require.ErrorIs(t, err, fault.ErrLocked)
			assert.Equal(t, 10*time.Second, time.Since(began))
			return nil
		}))
		assert.Equal(t, 10, told)
	})
}

func TestAloneOfBadInput(t *testing.T) {
	r := memEngine(t).repository(t, nil)
	alone := func(name string, o admin.AloneOptions) error {
		return admin.New(r).Alone(t.Context(), name, &o, nothing)
	}
	for _, name := range []string{"", "A", "-a", "a#", "é", "a b", string(make([]byte, 65))} {
		assertInvalid(t, alone(name, admin.AloneOptions{}), "name", "")
	}
	assertInvalid(t, alone("a", admin.AloneOptions{Hold: time.Millisecond}), "options.Hold", "give 1s to 1h0m0s")
	assertInvalid(t, alone("a", admin.AloneOptions{Hold: -time.Second}), "options.Hold", "give")
	assertInvalid(t, alone("a", admin.AloneOptions{Hold: 2 * time.Hour}), "options.Hold", "give")
	assertInvalid(t, alone("a", admin.AloneOptions{Wait: -time.Second}), "options.Wait", "give 0 or more")
	assertInvalid(t, admin.New(r).Alone(t.Context(), "a", nil, nil), "do", "is nil")
	assertInvalid(t, admin.New(r.As("")).Alone(t.Context(), "a", nil, nothing), "principal", "")
	assert.NoError(t, alone("a-b", admin.AloneOptions{Hold: time.Second}))
}
