package aggregator_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
)

// TestLargestAddsUpTheClosedHours: those of the resource between the times, also after an hour was closed again.
func TestLargestAddsUpTheClosedHours(t *testing.T) {
	day := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	o := newOffice(t, day.Add(time.Hour), nil)
	for _, e := range []admin.Entity{{ID: "org"}, {ID: "key-1", ParentID: "org"}, {ID: "key-2", ParentID: "org"}} {
		require.NoError(t, admin.New(o.repo).Entities.Create(t.Context(), e))
	}
	o.used("org", "all", day.Add(10*time.Minute), 0, 9000)
	o.used("key-1", "all", day.Add(10*time.Minute), 0, 4000)
	o.used("key-2", "all", day.Add(10*time.Minute), 0, 5000)
	o.used("key-2", "gpt-4", day.Add(10*time.Minute), 0, 70000)
	o.close(day.Add(75 * time.Minute))
	o.used("key-1", "all", day.Add(80*time.Minute), 4000, 7000)
	o.close(day.Add(2*time.Hour + 15*time.Minute))
	r, err := aggregator.NewReader(o.db.Client(), "limits", nil)
	require.NoError(t, err)
	closed, err := r.Closed(t.Context())
	require.NoError(t, err)
	assert.Equal(t, day.Add(2*time.Hour), closed)
	largest := func(from, to time.Time) []aggregator.Ranked {
		all, err := r.Largest(t.Context(), "all", from, to)
		require.NoError(t, err)
		return all["rpm"]
	}
	want := []aggregator.Ranked{{Entity: "key-1", Consumed: 7000}, {Entity: "key-2", Consumed: 5000}}
	assert.Equal(t, want, largest(day, day.Add(24*time.Hour)))
	_, err = o.closer.Close(t.Context(), day, day.Add(2*time.Hour))
	require.NoError(t, err)
	assert.Equal(t, want, largest(day, day.Add(24*time.Hour)))
	assert.Equal(t, []aggregator.Ranked{{Entity: "key-1", Consumed: 3000}}, largest(day.Add(time.Hour), day.Add(2*time.Hour)))
	assert.Empty(t, largest(day.Add(2*time.Hour), day.Add(3*time.Hour)))
}
