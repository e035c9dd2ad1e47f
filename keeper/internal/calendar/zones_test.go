package calendar

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/calendar"
)

// everyZone names the zones of the Go distribution.
func everyZone(t *testing.T) (names []string) {
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	require.NoError(t, err)
	r, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib/time/zoneinfo.zip"))
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	for _, f := range r.File {
		if _, err := calendar.LoadZone(f.Name); err == nil && !strings.HasSuffix(f.Name, "/") {
			names = append(names, f.Name)
		}
	}
	require.Greater(t, len(names), 400)
	return names
}

// TestDaysOfEveryZone: around every transition of every zone no day is entered
// twice, a day's end is where the next begins, and so is the reset before it.
// DYNALIMIT_SOAK looks at every year from 2024 to 2037, not at two alone.
func TestDaysOfEveryZone(t *testing.T) {
	from, to := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC)
	if os.Getenv("DYNALIMIT_SOAK") != "" {
		from, to = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2037, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	transitions := 0
	for _, name := range everyZone(t) {
		zone, err := calendar.LoadZone(name)
		require.NoError(t, err)
		cal := InZone(name)
		for at := from; ; transitions++ {
			_, change := at.In(zone).ZoneBounds()
			if change.IsZero() || change.After(to) {
				break
			}
			walkDays(t, cal, name, change)
			at = change.Add(time.Second)
		}
	}
	assert.Greater(t, transitions, 100)
}

// walkDays goes by half a minute from 30 hours before a transition to 30 hours
// after it.
func walkDays(t *testing.T, cal Calendar, name string, change time.Time) {
	const step = 30 * time.Second
	var days []string
	for m := change.Add(-30 * time.Hour); m.Before(change.Add(30 * time.Hour)); m = m.Add(step) {
		day := cal.Day(m)
		if len(days) == 0 {
			days = append(days, day)
		}
		last := days[len(days)-1]
		if day == last {
			continue
		}
		require.Less(t, last, day, "%s: at %s", name, m.UTC())
		require.False(t, slices.Contains(days, day), "%s: day %s entered again at %s", name, day, m.UTC())
		end := cal.End(last)
		require.True(t, !m.Before(end) && m.Sub(end) < step, "%s: end(%s) = %s, the change is by %s", name, last, end.UTC(), m.UTC())
		require.Equal(t, end.UnixMilli(), cal.NextDay(m.Add(-step)).UnixMilli(), "%s: the reset before %s", name, m.UTC())
		days = append(days, day)
	}
}
