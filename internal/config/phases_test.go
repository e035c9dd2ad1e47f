package config

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// TestRaiseEndsByTheLatestTimeThatItMayBe: what DynamoDB's clock may say ends a raise, and what is
// the likeliest has the configuration read again. Between the two one reading serves, without the
// raise, also who holds it.
func TestRaiseEndsByTheLatestTimeThatItMayBe(t *testing.T) {
	began := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	now := began
	clock := ddb.NewClock(func() time.Time { return now }, true)
	clock.Observe(http.Header{"Date": {began.Format(http.TimeFormat)}}, began) // the offset is 0 to 1 s
	configs := New(Options{Store: noStore{}, Now: clock.Source, Clock: clock, Size: 10, TTL: time.Minute})
	until := began.Add(30 * time.Second)
	item := schema.ConfigItem{
		Limits: []schema.ConfigLimit{{Name: "rpm", Capacity: 100, Burst: 100, RefillAmount: 100, RefillPeriod: time.Minute}},
		Raises: []schema.ConfigRaise{{Name: "rpm", Capacity: 300, PeriodSeconds: 60, Until: until.Unix()}},
	}.Item(schema.Keys{}, schema.ConfigOwner{}, nil)
	key, reads := Key{Entity: "ann", Resource: "gpt-4"}, 0
	get := func() *Resolved {
		t.Helper()
		cfg, err := configs.loading.Get(t.Context(), key, func(context.Context) (*Resolved, error) {
			reads++
			return new(kinds).resolve(&storedItems{Items: Items{System: item}, readAt: clock.NowMS()})
		})
		require.NoError(t, err)
		return configs.inForce(cfg)
	}
	raised := get()
	assert.EqualValues(t, 300*milli, raised.Limits.Limits[0].Capacity)
	held, ok := configs.Hold(key)
	require.True(t, ok)
	now = until.Add(-time.Second - time.Millisecond)
	assert.Same(t, raised, get())
	assert.True(t, configs.Still(&held, now))

	now = until.Add(-time.Second) // it may be over
	assert.EqualValues(t, 100*milli, get().Limits.Limits[0].Capacity)
	assert.EqualValues(t, 100*milli, configs.Fresh(GivenKey{Key: key}).Limits.Limits[0].Capacity)
	assert.EqualValues(t, 100*milli, configs.Last(GivenKey{Key: key}).Limits.Limits[0].Capacity)
	assert.False(t, configs.Still(&held, now))
	_, ok = configs.Hold(key)
	assert.False(t, ok)
	assert.Equal(t, 1, reads)
	now = until
	assert.Nil(t, configs.Fresh(GivenKey{Key: key}))
	last := get()
	assert.EqualValues(t, 100*milli, last.Limits.Limits[0].Capacity)
	get()
	assert.Equal(t, 2, reads)

	image := &schema.Image{Fingerprint: raised.Limits.Fingerprint, HasRefilled: true, ConfigRead: raised.ReadAt - 1000}
	after := raised.seldom.after.Limits
	assert.Equal(t, plan.Early, plan.Compare(image, after, 0), "it was read before the end")
	assert.Equal(t, plan.Newer, plan.Compare(image, last.Limits, 0), "it was read after it")
	image.Fingerprint, image.ConfigRead = []byte("another"), until.UnixMilli()-1000
	assert.Same(t, after, raised.Limits.AsOf(image), "the end is past by another's clock")
	image.ConfigRead--
	assert.Same(t, raised.Limits, raised.Limits.AsOf(image))
}

// noStore is a store that answers, and is never read.
type noStore struct{ Store }

func (noStore) Away() error { return nil }
