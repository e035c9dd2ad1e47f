package tests

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
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
	_, err = (&dynalimit.Repository{}).ResolveLimits(t.Context(), "a", model)
	requireInvalid(t, err, "repository")
}

func TestInvalidateConfig(t *testing.T) {
	s := memProcess(t, nil)
	fill := func() {
		for _, entity := range []string{"a", "b"} {
			for _, resource := range []string{"r", "q"} {
				_, err := s.repo.config(t.Context(), entity, resource)
				require.NoError(t, err)
			}
		}
	}
	type key struct{ entity, resource string }
	for _, test := range []struct {
		entity, resource string
		left             []key
	}{
		{"a", "r", []key{{"a", "q"}, {"b", "q"}, {"b", "r"}}},
		{"a", "", []key{{"b", "q"}, {"b", "r"}}},
		{"", "r", []key{{"a", "q"}, {"b", "q"}}},
		{"", "", nil},
		{"c", "r", []key{{"a", "q"}, {"a", "r"}, {"b", "q"}, {"b", "r"}}},
	} {
		fill()
		s.repo.InvalidateConfig(test.entity, test.resource)
		var left []key
		for _, k := range []key{{"a", "q"}, {"a", "r"}, {"b", "q"}, {"b", "r"}} {
			c, err := s.repo.config(t.Context(), k.entity, k.resource)
			require.NoError(t, err)
			if !c.Read {
				left = append(left, k)
			}
		}
		assert.Equal(t, test.left, left, "%q %q", test.entity, test.resource)
	}
	(&dynalimit.Repository{}).InvalidateConfig("", "")
}
