package outage

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/bench/internal/program"
	"github.com/dynalimit/dynalimit/internal/testworld"
)

func TestMain(m *testing.M) {
	if program.RunChild(serve) { // outage runs itself again
		return
	}
	goleak.VerifyTestMain(m)
}

var flags settings

func init() {
	flag.IntVar(&flags.callers, "callers", 256, "callers")
	flag.IntVar(&flags.buckets, "buckets", 4, "buckets they share")
	flag.DurationVar(&flags.lasting, "for", 5*time.Second, "how long the store does not answer")
	flag.DurationVar(&flags.every, "every", 100*time.Millisecond, "time between two calls of a caller")
}

var policies = []dynalimit.UnavailablePolicy{dynalimit.Allow, dynalimit.Local, dynalimit.Refuse}

// BenchmarkOutage is every policy with every failure; make bench ARGS='-suite outage' judges
// them.
func BenchmarkOutage(b *testing.B) {
	for _, policy := range policies {
		for _, failure := range failures {
			b.Run(string(policy)+"/"+failure, func(b *testing.B) {
				var o *outcome
				var err error
				for b.Loop() {
					o, err = runOutage(b.Context(), flags, policy, failure)
					require.NoError(b, err)
				}
				program.Report(b, o.values)
				if o.failed > 0 && policy != dynalimit.Refuse {
					b.Log("failed:", o.firstError)
				}
			})
		}
	}
}

// BenchmarkPools lets the idle connections of the SDK's own client die while new ones work. The
// store has to serve within 2 s.
func BenchmarkPools(b *testing.B) {
	for _, policy := range policies {
		for _, death := range []testworld.Death{testworld.Forgotten, testworld.Reset} {
			for _, idle := range []int{10, 50} {
				for _, callers := range []int{1, 2, 5, 20} {
					c := poolCase{policy, death, idle, callers}
					b.Run(c.String(), func(b *testing.B) {
						var values program.Values
						var err error
						for b.Loop() {
							values, err = c.measure(b.Context())
							require.NoError(b, err)
						}
						program.Report(b, values)
					})
				}
			}
		}
	}
}

func TestOutage(t *testing.T) {
	for _, policy := range policies {
		t.Run(string(policy), func(t *testing.T) {
			s := settings{callers: 8, buckets: 4, lasting: time.Second, every: 100 * time.Millisecond}
			o, err := runOutage(t.Context(), s, policy, "reset") // times are not judged here
			require.NoError(t, err)
			require.Positive(t, o.values["later"])
			require.LessOrEqual(t, o.used-o.doubt, o.charged)
			if policy == dynalimit.Refuse {
				require.Positive(t, o.failed)
				return
			}
			require.Zero(t, o.failed, o.firstError)
			require.Zero(t, o.values["refused-5s"])
			require.LessOrEqual(t, o.charged, o.used)
			if policy == dynalimit.Local {
				assert.LessOrEqual(t, o.values["small"], smallLimit*share)
			}
		})
	}
}
