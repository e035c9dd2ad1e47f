package console

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
)

func TestAmountsAreForPeople(t *testing.T) {
	for micros, want := range map[int64]string{
		0: "$0.00", 1_200: "$0.0012", 9_999: "$0.0100", 10_000: "$0.01", 1_234_560_000: "$1,234.56", 9_999_994_999: "$9,999.99", 12_345_600_000: "$12,346", -5_000_000: "−$5.00",
	} {
		assert.Equal(t, want, formatDollars(micros))
	}
	for n, want := range map[int64]string{0: "0", 9_999: "9,999", 12_345: "12k", 1_500_000: "1.5M", 20_000_000: "20M", -12_000: "−12k"} {
		assert.Equal(t, want, formatCount(n))
	}
	for d, want := range map[time.Duration]string{time.Millisecond: "1 s", 45 * time.Second: "45 s", 12 * time.Minute: "12 min", 343 * time.Minute: "5 h 43 min", 72 * time.Hour: "3 days"} {
		assert.Equal(t, want, formatSpan(d))
	}
	assert.Equal(t, "-0.049380000", exactAmount(true, -49_380_000))
	assert.Equal(t, []string{"-0.005", "12.000"}, []string{exactAmount(false, -5), exactAmount(false, 12_000)})
	for want, l := range map[string]dynalimit.Limit{
		"an hour, UTC": {Window: "hour"}, "a minute": dynalimit.PerMinute("rpm", 1), "every 1m30s": {RefillPeriod: 90 * time.Second}, "at once": dynalimit.Concurrent("calls", 20, 0),
	} {
		assert.Equal(t, want, periodText(l))
	}
	for text, want := range map[string]string{"=1+1": "'=1+1", "-x": "'-x", "key-1": "key-1", "": ""} {
		assert.Equal(t, want, escapeFormula(text))
	}
}

// TestChartStacksItsColumns: the parts of a column touch, end at the base line, and stay below the scale's end.
func TestChartStacksItsColumns(t *testing.T) {
	c := newChart("Spend a day", "Day", []string{"Nov 1", "Nov 2"}, []series{{"a", []int64{50_000_000, 0}}, {others, []int64{30_000_000, -1}}}, true, 60_000_000, true)
	assert.Equal(t, []part{{"m0", "7.50%", "35.00%", "70.0", "90.0"}, {"m4", "7.50%", "35.00%", "16.0", "54.0"}}, c.Columns[0].Parts)
	assert.Empty(t, c.Columns[1].Parts)
	assert.Equal(t, "Spend a day: Nov 1 $80.00, Nov 2 $0.00", c.Label())
	assert.Equal(t, "limit $60", c.Limit.Text)
	assert.True(t, c.Columns[1].Open)
	assert.Nil(t, newChart("", "", nil, nil, false, 0, false))
}

// TestLabelsStayInTheChart: the first and the last one, also on a narrow page.
func TestLabelsStayInTheChart(t *testing.T) {
	for n := 1; n <= 90; n++ {
		labels := spacedLabels(make([]string, n), 100/float64(n))
		assert.Equal(t, "end", labels[len(labels)-1].Anchor)
		for _, l := range labels {
			at, err := strconv.ParseFloat(strings.TrimSuffix(l.X, "%"), 64)
			require.NoError(t, err)
			assert.True(t, at >= leastMiddle || l.Anchor == "start", "%d columns: %+v", n, l)
		}
	}
	assert.Equal(t, label{"0.00%", "Nov 1", "start", ""}, spacedLabels(append([]string{"Nov 1"}, make([]string, 24)...), 4)[0])
}
