package dynalimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/levels"
)

func TestResolveLimitsSaysWhatAppliesAndFromWhere(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		resolve := func(entity string) ResolvedLimits {
			t.Helper()
			got, err := s.repo.ResolveLimits(t.Context(), entity, model)
			require.NoError(t, err)
			assert.Equal(t, entity, got.EntityID)
			assert.Equal(t, model, got.Resource)
			got.EntityID, got.Resource = "", ""
			return got
		}
		assert.Equal(t, ResolvedLimits{}, resolve("user-1"), "nothing is stored")
		s.enrols(schema.EntityRecord{ID: "user-1", Plan: "pro", ParentID: "org", Cascade: true})
		s.says(ofSystem, schema.ConfigItem{OnUnavailable: "allow", Limits: limited(Amounts{"rpm": 1, "tpm": 2}).Limits})
		s.says(ofResource, schema.ConfigItem{OnUnavailable: "local", Blocked: true, Limits: limited(Amounts{"images": 5, "tpm": 7}).Limits})
		want := ResolvedLimits{
			Limits: []Limit{PerMinute("images", 5), PerMinute("tpm", 7)}, Level: levels.Resource, Plan: "pro", Blocked: levels.Resource,
			OnUnavailable: Local, PolicyLevel: levels.Resource, Hidden: []HiddenLimit{{"rpm", levels.System}}, ParentID: "org", Cascade: true,
		}
		assert.Equal(t, want, resolve("user-1"))
		s.says(ofPlan, limited(Amounts{"rpm": 9}))
		want.Limits, want.Level = []Limit{PerMinute("rpm", 9)}, levels.Plan
		want.Hidden = []HiddenLimit{{"images", levels.Resource}, {"tpm", levels.Resource}}
		assert.Equal(t, want, resolve("user-1"), "at once, whatever is cached")
		s.says(ofEntityDefault, unlimited)
		want.Limits, want.Level, want.Unlimited = nil, levels.EntityDefault, true
		want.Hidden = []HiddenLimit{{"rpm", levels.Plan}, {"images", levels.Resource}, {"tpm", levels.Resource}}
		assert.Equal(t, want, resolve("user-1"))
		assert.Equal(t, levels.Resource, resolve("user-2").Level)
	})
}

func TestResolveLimitsAsksOnceOrTwice(t *testing.T) {
	s := memProcess(t, nil)
	s.enrols(schema.EntityRecord{ID: "user-1", Plan: "pro"})
	for entity, requests := range map[string]int64{"user-1": 2, "user-2": 1} {
		used := s.used(func() {
			_, err := s.repo.ResolveLimits(t.Context(), entity, model)
			require.NoError(t, err)
		})
		assert.Equal(t, requests, used.Requests())
	}
	assert.Zero(t, s.repo.ConfigCacheStats().Size, "the cache stays as it is")
}

func TestResolveLimitsRefusesBadInput(t *testing.T) {
	s := memProcess(t, nil)
	_, err := s.repo.ResolveLimits(t.Context(), "a b", model)
	requireInvalid(t, err, "entity")
	_, err = s.repo.ResolveLimits(t.Context(), "a", "")
	requireInvalid(t, err, "resource")
	put(t, s.repo, schema.Item{"PK": schema.String("SYSTEM#"), "SK": schema.String("#CONFIG"), "l_rpm_cp": schema.Number(1)})
	_, err = s.repo.ResolveLimits(t.Context(), "a", model)
	requireInvalid(t, err, "stored limits of level system")
	_, err = (&Repository{}).ResolveLimits(t.Context(), "a", model)
	requireInvalid(t, err, "repository")
}

func TestInvalidateConfig(t *testing.T) {
	s := memProcess(t, nil)
	fill := func() {
		for _, entity := range []string{"a", "b"} {
			for _, resource := range []string{"r", "q"} {
				_, _, _, err := s.repo.config(t.Context(), entity, resource, time.Time{})
				require.NoError(t, err)
			}
		}
	}
	for _, test := range []struct {
		entity, resource string
		left             []configKey
	}{
		{"a", "r", []configKey{{"a", "q"}, {"b", "q"}, {"b", "r"}}},
		{"a", "", []configKey{{"b", "q"}, {"b", "r"}}},
		{"", "r", []configKey{{"a", "q"}, {"b", "q"}}},
		{"", "", nil},
		{"c", "r", []configKey{{"a", "q"}, {"a", "r"}, {"b", "q"}, {"b", "r"}}},
	} {
		fill()
		s.repo.InvalidateConfig(test.entity, test.resource)
		var left []configKey
		for _, k := range []configKey{{"a", "q"}, {"a", "r"}, {"b", "q"}, {"b", "r"}} {
			if s.repo.known(k.entity, k.resource) != nil {
				left = append(left, k)
			}
		}
		assert.Equal(t, test.left, left, "%q %q", test.entity, test.resource)
	}
	(&Repository{}).InvalidateConfig("", "")
}
