package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/keeper/internal/calendar"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// TestDaysAreKeptForKeepDays: every counter, total and adjustment of a day has a time to live
// that ends after the last day on which it can be read, and only then is its day refused.
func TestDaysAreKeptForKeepDays(t *testing.T) {
	for _, zone := range []string{"Pacific/Kiritimati", "Etc/GMT+12"} {
		t.Run(zone, func(t *testing.T) {
			engines(t, func(t *testing.T, w *world) {
				o := fixtureOrg()
				o.Timezone = zone
				k := w.keeper(&Options{KeepDays: 30, AllowUnknownApps: true})
				w.a = k
				w.org(o)
				ctx := t.Context()
				u := call(1)
				u.Tags = map[string]string{"user": "u1"}
				r := w.submit(k, u)
				charge := func(day string) error {
					return adjust(ctx, k, orgO, appA, Adjustment{Label: "premium", Day: day, DeltaMicros: 5, Reason: "test"})
				}
				require.NoError(t, charge(r.Day))
				read := func() (cost int64, err error) {
					for day, err := range k.History(ctx, orgO, appA, r.Day, r.Day) {
						return day.CostMicros, err
					}
					return 0, nil
				}
				w.clock.Advance(3 * 24 * time.Hour)
				_, err := read() // closes it
				require.NoError(t, err)
				k.ledger.WaitForTotals()
				require.NoError(t, charge(r.Day)) // opens it again
				_, err = read()
				require.NoError(t, err)
				k.ledger.WaitForTotals()

				w.clock.Advance(calendar.InZone(zone).End(r.Day).AddDate(0, 0, 30).Sub(w.clock.Now()) - time.Second)
				cost, err := read()
				require.NoError(t, err, "the last second of the 30th day after it")
				assert.Equal(t, int64(16_510), cost)
				lasting := 0
				for _, item := range w.items("") {
					switch key := store.KeyOf(item); key.PK[:2] {
					case "OR", "T#", "AU":
						lasting++
						var d store.Decoder
						assert.Greater(t, d.Int(item, store.AttrTTL), w.clock.Now().Unix(), key)
						assert.Less(t, d.Int(item, store.AttrTTL), w.clock.Now().AddDate(0, 0, 3).Unix(), key)
					}
				}
				assert.GreaterOrEqual(t, lasting, 5, "a label, a tag, a total, two adjustments")
				w.clock.Advance(time.Second)
				for what, try := range map[string]func() error{
					"Totals":    func() error { _, err := k.Totals(ctx, orgO, appA, r.Day); return err },
					"TagTotals": func() error { _, err := k.TagTotals(ctx, orgO, appA, r.Day, "user"); return err },
					"History":   func() error { _, err := read(); return err },
					"Adjust":    func() error { return charge(r.Day) },
				} {
					require.ErrorAs(t, try(), new(*fault.ValidationError), what)
					require.ErrorContains(t, try(), "30 days ago", what)
				}
			})
		})
	}
}
