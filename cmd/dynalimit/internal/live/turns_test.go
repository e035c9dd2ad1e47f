package live

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/levels"
)

// marked is a table in which one entity is blocked.
type marked struct {
	Store
	entity string
	looks  int
}

func (s *marked) ResourceBuckets(_ context.Context, resource string) iter.Seq2[admin.Bucket, error] {
	return func(yield func(admin.Bucket, error) bool) { yield(bucket(s.entity, resource, 1, 2, 3), nil) }
}

func (s *marked) GetEntities(_ context.Context, ids []string) ([]admin.Entity, error) {
	return make([]admin.Entity, len(ids)), nil
}

func (s *marked) GetConfigs(_ context.Context, at []admin.Scope) ([]admin.ScopedConfig, error) {
	s.looks++
	configs := make([]admin.ScopedConfig, len(at))
	for i, scope := range at {
		configs[i].Config.Blocked = scope.Entity == s.entity && scope.Resource == ""
	}
	return configs, nil
}

// TestMarksAreOfWhatIsLookedAt: they are kept for half a minute, while nothing else is looked
// at and the clock goes on.
func TestMarksAreOfWhatIsLookedAt(t *testing.T) {
	now := noon
	s := &marked{entity: "shut"}
	r := &Reader{Store: s, Most: 10, Now: func() time.Time { return now }}
	for _, step := range []struct {
		resource string
		passes   time.Duration
		looks    int
	}{{"x", 0, 1}, {"x", 29 * time.Second, 1}, {"x", time.Second, 2}, {"y", time.Second, 3}, {"x", time.Second, 4}, {"x", -time.Hour, 5}} {
		now = now.Add(step.passes)
		got := r.Read(t.Context(), What{Resource: step.resource})
		require.NoError(t, got.Err)
		assert.Equal(t, levels.EntityDefault, got.Blocked[Key{"shut", step.resource}], "%+v", step)
		assert.Equal(t, step.looks, s.looks, "%+v", step)
	}
}
