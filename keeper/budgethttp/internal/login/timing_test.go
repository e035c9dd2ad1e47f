package login

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// samples is how many logins of each kind are timed.
const samples = 2000

// BenchmarkRefusedLogins times logins of an unknown client and of a known one with a wrong
// secret, in turn, and reports Welch's t of their times and the difference of their means:
// below 4.5 either way nobody can tell them apart by so many. Run it with -benchtime 1x.
func BenchmarkRefusedLogins(b *testing.B) {
	for name, login := range map[string]func(w *world, n *node, id string) error{
		"store": func(w *world, n *node, id string) error { // without the network's noise
			return second(n.store.Verify(w.t.Context(), id, wrong))
		},
		"service": func(w *world, n *node, id string) error { // with the limit on failures
			return second(n.Token(w.t.Context(), home, id, wrong))
		},
	} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b, func(o *Options) { o.PerAddress, o.PerClient = 1_000_000, 1_000_000 })
			w.db.SetFaults(nil)
			ids := [2]string{w.client(orgO, appA).ClientID, credentials.ClientID(orgO, "app-production-apj")}
			for range 200 { // until caches are warm
				for _, id := range ids {
					require.Error(b, login(w, w.a, id))
				}
			}
			for range b.N {
				var times [2][]float64
				for i := range 2 * samples {
					kind := (i + i/2) % 2 // known, unknown, unknown, known
					start := time.Now()
					err := login(w, w.a, ids[kind])
					times[kind] = append(times[kind], float64(time.Since(start)))
					require.Error(b, err)
				}
				t, difference := welch(times[0], times[1])
				b.ReportMetric(t, "t")
				b.ReportMetric(difference, "ns-apart")
			}
		})
	}
}

// welch is Welch's t of two samples, and the difference of their means.
func welch(a, b []float64) (t, difference float64) {
	meanA, varA := moments(a)
	meanB, varB := moments(b)
	return (meanA - meanB) / math.Sqrt(varA/float64(len(a))+varB/float64(len(b))), meanA - meanB
}

func moments(values []float64) (mean, variance float64) {
	for _, v := range values {
		mean += v
	}
	mean /= float64(len(values))
	for _, v := range values {
		variance += (v - mean) * (v - mean)
	}
	return mean, variance / float64(len(values)-1)
}
