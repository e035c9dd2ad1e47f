package tests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// What zae-limiter refuses is refused on a repository that is to stay readable
// for it, by the name of what is wrong, and accepted on any other.
func TestCompatible(t *testing.T) {
	e := memEngine(t)
	low := dynalimit.PerMinute("rpm", 10).WithBurst(5)
	ctx := t.Context()
	for _, compatible := range []bool{false, true} {
		r := e.repository(t, &dynalimit.RepositoryOptions{Compatible: compatible})
		l, err := newLimiter(r, perMinute())
		require.NoError(t, err)
		acquire := func(resource string, opts ...dynalimit.AcquireOption) error {
			_, err := l.Acquire(ctx, "u", resource, dynalimit.Amounts{"rpm": 1}, opts...)
			return err
		}
		for field, calls := range map[string][]func() error{
			"resource": {
				func() error { return acquire("4o") },
				func() error { return acquire("anthropic.claude-v1:0") },
				func() error { return acquire("gpt@eu") },
				func() error { return acquire(strings.Repeat("x", 65)) },
				func() error {
					return r.SetLimits(ctx, admin.Scope{Everyone: true, Resource: "4o"}, []dynalimit.Limit{rpm})
				},
				func() error {
					return r.SetLimits(ctx, admin.Scope{Entity: "u", Resource: "a:b"}, []dynalimit.Limit{rpm})
				},
				func() error { _, err := l.Check(ctx, "u", "4o", nil); return err },
			},
			"limits":     {func() error { return r.SetLimits(ctx, admin.Scope{Everyone: true}, []dynalimit.Limit{low}) }},
			"WithLimits": {func() error { return acquire("gpt-4", dynalimit.WithLimits(low)) }},
			"options.Limits": {func() error {
				_, err := newLimiter(r, &dynalimit.Options{Limits: []dynalimit.Limit{low}})
				return err
			}},
		} {
			for i, call := range calls {
				if err := call(); compatible {
					requireInvalid(t, err, field)
					assert.ErrorContains(t, err, "zae-limiter")
				} else {
					require.NoError(t, err, "%s %d", field, i)
				}
			}
		}
		require.NoError(t, acquire("openai/gpt-4"))
		require.NoError(t, acquire(strings.Repeat("x", 64)))
		require.NoError(t, r.SetLimits(ctx, admin.Scope{Entity: "ada@example.com:1"}, []dynalimit.Limit{rpm.WithBurst(500)}))
		require.NoError(t, l.Close(ctx))
	}
}
