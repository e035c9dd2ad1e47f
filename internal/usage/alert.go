package usage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// alertsLate is the time after the end of a window from which its records decide no alert: they are repeated by a
// follower with another name, or of a restored table.
const alertsLate = 24 * time.Hour

// BucketRecord is a record of the stream about a bucket. Unlike a Change it may count nothing.
type BucketRecord struct {
	Key schema.Key
	// Seq is the record's number, see schema.Sequence.
	Seq string
	// Old and New are its images; nil where there was no item.
	Old, New schema.Item
}

// quotaWindow is a window of a quota in one life of a bucket.
type quotaWindow struct {
	limit, windows string
	window         int64
	bucket         string
}

// DueAlerts returns the alerts that a bucket's records show at an instant: the thresholds that each window's
// last image has reached, from the lowest on. It leaves out windows that ended more than a day ago. Repeated
// records give the same alerts again.
func DueAlerts(records []BucketRecord, at time.Time) (due []schema.Alert) {
	last := map[quotaWindow]schema.Alert{}
	reached := map[quotaWindow][]int{}
	for _, r := range slices.SortedStableFunc(slices.Values(records), func(a, b BucketRecord) int { return strings.Compare(a.Seq, b.Seq) }) {
		for _, image := range []schema.Item{r.Old, r.New} {
			keys, entity, resource, _ := schema.BucketOf(r.Key)
			incarnation := schema.BucketIncarnation(image)
			for _, q := range schema.AlertedQuotas(image) {
				w := quotaWindow{q.Limit, q.Windows.String(), q.Window, incarnation}
				reached[w] = q.Reached()
				last[w] = schema.Alert{
					Keys: keys, Entity: entity, Resource: resource, Limit: q.Limit, Amount: q.Amount, Used: q.Used, Unit: q.Unit,
					Windows: q.Windows, Window: q.Window, Bucket: fmt.Sprintf("%x", incarnation), At: at, Shadow: q.DeniedInShadow,
				}
			}
		}
	}
	compare := func(a, b quotaWindow) int {
		return cmp.Or(strings.Compare(a.limit, b.limit), cmp.Compare(a.window, b.window), strings.Compare(a.windows, b.windows), strings.Compare(a.bucket, b.bucket))
	}
	for _, w := range slices.SortedFunc(maps.Keys(reached), compare) {
		a := last[w]
		if at.After(a.End().Add(alertsLate)) {
			continue
		}
		shadow := a.Shadow
		for _, a.Percent = range reached[w] {
			a.Shadow = shadow && a.Percent == schema.WholeQuota
			due = append(due, a)
		}
	}
	return due
}
