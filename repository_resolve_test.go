package dynalimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/schema"
)

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
