package laws

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/plan"
)

// TestGivesBackToTheWindowThatItTookIn gives back what a lease took of a limit while it was a
// bucket, and while it was a quota. What it took of the quota goes to that hour's tokens, once,
// also after what it took of the bucket has come off the counter.
func TestGivesBackToTheWindowThatItTookIn(t *testing.T) {
	const hour = "hour 262983"
	back := func(window bucket.WindowID) part {
		return part{amounts: []plan.Signed{{Name: "tpm", Amount: -1000, Window: window}}}
	}
	ofBucket, ofHour, ofNone := back(0), back(262983), back(262982)
	for name, test := range map[string]struct {
		gives     []part
		must, may int64 // of the last one
	}{
		"of the hour":              {[]part{ofHour}, 1000, 1000},
		"of the bucket":            {[]part{ofBucket}, 0, 0},
		"of the bucket first":      {[]part{ofBucket, ofHour}, 1000, 1000},
		"of the hour first":        {[]part{ofHour, ofBucket}, 0, 0},
		"of the hour twice":        {[]part{ofHour, ofHour}, 0, 0},
		"of where it took nothing": {[]part{ofNone}, 1000, 1000}, // whatever its client says
	} {
		t.Run(name, func(t *testing.T) {
			_, s := withStake(t.Context())
			r := &replay{j: newJudge(newOracle(), bounds{}), entity: "key"}
			r.j.bookTaken(s, r.lotOf("tpm", ""), 1000)
			r.recordFlip("tpm")
			r.j.bookTaken(s, r.lotOf("tpm", hour), 1000)
			var must, may int64
			for _, one := range test.gives {
				one.stake = s
				r.sent = &sentWrite{calls: []part{one}}
				must, may = r.allowedGiveBacks("tpm", hour)
				r.bookWindows("tpm", hour, false)
			}
			require.Equal(t, test.must, must)
			require.Equal(t, test.may, may)
		})
	}
}
