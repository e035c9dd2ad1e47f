package live

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/sources"
)

// TestMarksAreOfWhatIsLookedAt: they are kept for half a minute, while nothing else is looked
// at and the clock goes on.
func TestMarksAreOfWhatIsLookedAt(t *testing.T) {
	db := ddbmem.New()
	t.Cleanup(db.Close)
	repo, err := dynalimit.NewRepository(db.Client(), "limits", &dynalimit.RepositoryOptions{Principal: "test"})
	require.NoError(t, err)
	require.NoError(t, repo.CreateTable(t.Context()))
	limiter, err := dynalimit.New(repo, &dynalimit.Options{Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", 2)}})
	require.NoError(t, err)
	a := admin.New(repo)
	for _, resource := range []string{"x", "y"} {
		_, err := limiter.Acquire(t.Context(), "shut", resource, dynalimit.Amounts{"rpm": 1})
		require.NoError(t, err)
	}
	require.NoError(t, limiter.Close(t.Context()))
	require.NoError(t, a.Limits.SetBlocked(t.Context(), admin.Scope{Entity: "shut"}, true))
	read := func() int64 { return db.Meter().Operations["BatchGetItem"].Requests } // of buckets; then of entities, and of what blocks them

	now := noon
	r := &Reader{Admin: a, Most: 10, Now: func() time.Time { return now }}
	for _, step := range []struct {
		resource string
		passes   time.Duration
		looks    int64
	}{{"x", 0, 1}, {"x", 29 * time.Second, 0}, {"x", time.Second, 1}, {"y", time.Second, 1}, {"x", time.Second, 1}, {"x", -time.Hour, 1}} {
		now = now.Add(step.passes)
		before := read()
		got := r.Read(t.Context(), What{Resource: step.resource})
		require.NoError(t, got.Err)
		assert.Equal(t, sources.EntityDefault, got.Blocked[Key{"shut", step.resource}], "%+v", step)
		assert.Equal(t, 1+2*step.looks, read()-before, "%+v", step)
	}
}
