package budget

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/problem"
)

// TestALabelMayBeAModelsID: with its colon and slashes it is counted, closed, told and found
// like any other.
func TestALabelMayBeAModelsID(t *testing.T) {
	profile := "arn:aws:bedrock:us-east-1:123456789012:inference-profile/" + premiumModel
	longest := "a" + strings.Repeat("/", 127)
	engines(t, func(t *testing.T, w *world) {
		o := fixtureOrg()
		o.Ordering, o.Quotas, o.Models = nil, map[string]int64{}, map[string]string{}
		for _, label := range []string{premiumModel, profile, longest} {
			o.Ordering = append(o.Ordering, label)
			o.Quotas[label], o.Models[label] = 33_000, premiumModel
		}
		w.org(o)
		var r recorder
		k := w.keeper(&Options{OnEvent: r.hook})
		for i, label := range o.Ordering {
			assert.Equal(t, label, w.recommend(k, appA).Label)
			for j := range 2 {
				u := call(10*i + j)
				u.Label = label
				w.submit(w.a, u)
			}
			w.clock.Advance(6e9)
		}
		assert.Len(t, r.take(), 2*4, "three thresholds and a step of the first two")
		w.clock.Set(at(t, "2099-01-27T00:00:00Z"))
		for range 2 { // from the shards, and from the closed totals
			for _, label := range o.Ordering {
				assert.Equal(t, int64(33_000), w.total(appA, label, "20990123").CostMicros, label)
			}
			w.a.ledger.WaitForTotals()
			w.b.ledger.WaitForTotals()
		}
		assert.Len(t, w.items("T#"), 3)
	})
	for _, bad := range []string{"", ":x", "a#b", "a b", longest + "x"} {
		assert.NotEmpty(t, problem.CheckLabel(bad), bad)
	}
	require.Error(t, validName("tag", premiumModel), "tags are as before")
}
