package budget

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWrongClocksKeepLiveHolds: a process whose clock is wrong neither takes a
// hold whose lease runs, nor makes one that others take, nor moves the day.
func TestWrongClocksKeepLiveHolds(t *testing.T) {
	for name, wrong := range map[string]time.Duration{"ahead": 61 * time.Second, "behind": -61 * time.Second, "a day ahead": 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.org(hardOrg())
			k, err := New(w.client, w.tables, &Options{
				Models: fixtureModels, Now: func() time.Time { return w.clock.Now().Add(wrong) }, CorrectClock: aws.Bool(true),
			})
			require.NoError(t, err)
			defer func() { assert.NoError(t, k.Close(context.Background())) }()
			right, err := reserveFor(t, w.a, "premium", 6_000_000, time.Minute)
			require.NoError(t, err)
			_, err = reserveFor(t, k, "premium", 6_000_000, time.Minute)
			require.ErrorIs(t, err, ErrQuotaExceeded)
			own, err := reserveFor(t, k, "premium", 4_000_000, time.Minute)
			require.NoError(t, err)
			assert.Equal(t, right.Day, own.Day)
			w.clock.Advance(58 * time.Second)
			_, err = reserveFor(t, w.b, "premium", 1, time.Minute)
			require.ErrorIs(t, err, ErrQuotaExceeded, "both leases run")
			w.clock.Advance(8 * time.Second)
			_, err = reserveFor(t, w.b, "premium", 10_000_000, time.Minute)
			require.NoError(t, err, "both have ended")
		})
	}
}
