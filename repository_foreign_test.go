package dynalimit

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/itemjson"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/levels"
)

// zaeTable is a repository on a table with the items that zae-limiter 0.8.1
// wrote.
func zaeTable(t *testing.T, e *engine, opts *RepositoryOptions) *Repository {
	t.Helper()
	r := e.repository(t, opts)
	data, err := os.ReadFile("internal/schema/testdata/zae-0.8.1-items.json")
	require.NoError(t, err)
	items, err := itemjson.Items(data)
	require.NoError(t, err)
	put(t, r, items...)
	return r
}

func TestForeignConfiguration(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		r := zaeTable(t, e, nil)
		perMinute := func(rpm, tpm int64) []Limit { return []Limit{PerMinute("rpm", rpm), PerMinute("tpm", tpm)} }
		for _, test := range []struct {
			entity, resource string
			level            levels.Level
			limits           []Limit
			parent           string
		}{
			{"key-1", "claude-3", levels.Entity, []Limit{PerMinute("rpm", 20), PerHour("tpm", 60_000)}, "proj-1"},
			{"key-1", "gpt-4", levels.Resource, perMinute(100, 10_000), "proj-1"},
			{"proj-1", "gpt-4", levels.EntityDefault, []Limit{PerMinute("rpm", 1000), PerMinute("tpm", 100_000).WithBurst(150_000)}, ""},
			{"user-9", "other", levels.System, []Limit{PerMinute("rpm", 50)}, ""},
		} {
			cfg, bucket, read, err := r.config(t.Context(), test.entity, test.resource, time.Time{})
			require.NoError(t, err)
			assert.Equal(t, test.level, cfg.level)
			assert.Equal(t, test.limits, cfg.limits)
			assert.Equal(t, test.parent, cfg.parentID)
			assert.Equal(t, test.parent != "", cfg.cascade)
			assert.Equal(t, Allow, cfg.onUnavailable)
			assert.True(t, read)
			assert.Equal(t, schema.String(test.resource), bucket["resource"], "its bucket came along")
		}
	})
}
