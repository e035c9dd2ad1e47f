package credentials

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCostOfOperations is the price list, in requests and capacity units, as docs/cost.md
// has it.
func TestCostOfOperations(t *testing.T) {
	type cost struct {
		requests      int64
		writes, reads float64
	}
	ctx := t.Context()
	token := TokenRef{ID: "jti-1", Session: "sid-1", ClientID: ClientID(orgO, ""), Version: 1}
	for _, tc := range []struct {
		name string
		call func(t *testing.T, w *world) func() error
		want cost
	}{
		{"create", func(_ *testing.T, w *world) func() error {
			return func() error { return second(w.a.Create(ctx, orgO, appA)) }
		}, cost{2, 6, 1}},
		{"create, exists", func(_ *testing.T, w *world) func() error {
			w.create(w.a, orgO, "")
			return func() error { return second(w.a.Create(ctx, orgO, "")) }
		}, cost{1, 0, 1}},
		{"rotate", func(_ *testing.T, w *world) func() error {
			w.create(w.a, orgO, "")
			return func() error { return second(w.a.Rotate(ctx, orgO, "", 24)) }
		}, cost{3, 6, 2}},
		{"rotate, not fetched", func(t *testing.T, w *world) func() error {
			require.NoError(t, second(w.a.Create(ctx, orgO, "")))
			return func() error { return second(w.a.Rotate(ctx, orgO, "", 24)) }
		}, cost{3, 8, 2}},
		{"retrieve", func(t *testing.T, w *world) func() error {
			issued, err := w.a.Create(ctx, orgO, "")
			require.NoError(t, err)
			return func() error { return second(w.a.Retrieve(ctx, orgO, "", issued.Token)) }
		}, cost{2, 1, 1}},
		{"verify", func(_ *testing.T, w *world) func() error {
			c := w.create(w.a, orgO, "")
			return func() error { return second(w.a.Verify(ctx, c.ClientID, c.Secret)) }
		}, cost{1, 0, 1}},
		{"revoke a client", func(_ *testing.T, w *world) func() error {
			w.create(w.a, orgO, "")
			return func() error { return w.a.Revoke(ctx, orgO, "") }
		}, cost{2, 6, 1}},
		{"revoke a token", func(_ *testing.T, w *world) func() error {
			return func() error { return w.a.RevokeToken(ctx, "jti-1", fixtureNow.Add(RetrievalTTL)) }
		}, cost{1, 1, 0}},
		{"revoked, first", func(_ *testing.T, w *world) func() error {
			return func() error { return second(w.a.Revoked(ctx, token)) }
		}, cost{1, 0, 3}},
		{"revoked, within 30 s", func(_ *testing.T, w *world) func() error {
			w.revoked(w.a, token)
			return func() error { return second(w.a.Revoked(ctx, token)) }
		}, cost{}},
		{"verify a key, first", func(t *testing.T, w *world) func() error {
			key, err := w.a.CreateKey(ctx, "console")
			require.NoError(t, err)
			return func() error { return second(w.b.VerifyKey(ctx, key.Secret)) }
		}, cost{1, 0, 1}},
		{"verify a key, within 30 s", func(t *testing.T, w *world) func() error {
			key, err := w.a.CreateKey(ctx, "console")
			require.NoError(t, err)
			require.NoError(t, second(w.a.VerifyKey(ctx, key.Secret)))
			return func() error { return second(w.a.VerifyKey(ctx, key.Secret)) }
		}, cost{}},
		{"create a key", func(_ *testing.T, w *world) func() error {
			return func() error { return second(w.a.CreateKey(ctx, "console")) }
		}, cost{2, 4, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			call := tc.call(t, w)
			before := w.db.Meter()
			require.NoError(t, call())
			spent := w.db.Meter().Sub(before)
			assert.Equal(t, tc.want, cost{spent.Requests(), spent.WriteUnits(), spent.ReadUnits()})
		})
	}
}
