package live

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/sources"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var noon = time.Date(2026, 1, 23, 12, 0, 0, 0, time.UTC)

// bucket has one limit a minute, with its burst.
func bucket(entity, resource string, left, burst, taken int64) admin.Bucket {
	l := dynalimit.PerMinute("rpm", burst)
	reset := time.Duration(burst-left) * time.Minute / time.Duration(burst)
	return admin.Bucket{
		EntityID: entity, Resource: resource, Consumed: dynalimit.Amounts{"rpm": taken},
		Limits: []dynalimit.LimitStatus{{EntityID: entity, Resource: resource, Limit: l, Remaining: left, Reset: reset}},
	}
}

// quota is a bucket with a quota of each day in Los Angeles.
func quota(left, n int64) admin.Bucket {
	return admin.Bucket{EntityID: "key-1", Resource: "all", Limits: []dynalimit.LimitStatus{{Limit: dynalimit.DailyQuota("usd", n, "America/Los_Angeles"), Remaining: left, Reset: 20 * time.Hour}}}
}

func reading(at time.Time, buckets ...admin.Bucket) Reading {
	return Reading{At: at, Buckets: buckets, Units: 3.5}
}

// TestRatesAreSinceTheLastReading: by what was taken and the time between, whatever the
// sources.
func TestRatesAreSinceTheLastReading(t *testing.T) {
	first, counts := Rows(reading(noon, bucket("a", "x", 50, 100, 1000)), Counts{}, nil)
	assert.Nil(t, first[0].Rate)
	second, counts := Rows(reading(noon.Add(4*time.Second), bucket("a", "x", 40, 100, 1010), bucket("b", "x", 1, 10, 5)), counts, nil)
	require.NotNil(t, second[0].Rate)
	assert.InDelta(t, 2.5, *second[0].Rate, 1e-9)
	assert.Nil(t, second[1].Rate, "it was not there before")
	third, _ := Rows(reading(noon.Add(4*time.Second), bucket("a", "x", 40, 100, 1010)), counts, nil)
	assert.Nil(t, third[0].Rate, "no time has passed")
}

// TestWhenWhatIsAskedFits: now, after its refill, or never.
func TestWhenWhatIsAskedFits(t *testing.T) {
	for _, test := range []struct {
		left, asked int64
		want        time.Duration
	}{{50, 50, 0}, {40, 50, 6 * time.Second}, {-20, 10, 18 * time.Second}, {50, 101, dynalimit.Never}} {
		rows, _ := Rows(reading(noon, bucket("a", "x", test.left, 100, 0)), Counts{}, dynalimit.Amounts{"rpm": test.asked})
		assert.Equal(t, test.want, *rows[0].Fits, "%+v", test)
	}
	for _, test := range []struct {
		left, asked int64
		want        time.Duration
	}{
		{50, 50, 0},
		{40, 50, 20 * time.Hour},
		{-20, 80, 20 * time.Hour},
		{-20, 90, 44 * time.Hour},
		{-1 << 62, 1, dynalimit.Never - time.Millisecond},
		{50, 101, dynalimit.Never},
	} {
		rows, _ := Rows(reading(noon, quota(test.left, 100)), Counts{}, dynalimit.Amounts{"usd": test.asked})
		assert.Equal(t, test.want, *rows[0].Fits, "%+v", test)
		assert.Equal(t, noon.Add(20*time.Hour), rows[0].WindowEnds)
	}
	rows, _ := Rows(reading(noon, bucket("a", "x", 1, 2, 0)), Counts{}, dynalimit.Amounts{"tpm": 1})
	assert.Nil(t, rows[0].Fits)
}

// TestOrders: the least left relative to the burst, the most taken, the names.
func TestOrders(t *testing.T) {
	_, before := Rows(reading(noon, bucket("a", "x", 90, 100, 0), bucket("b", "x", -5, 10, 0), bucket("c", "x", 500, 1000, 0)), Counts{}, nil)
	rows, _ := Rows(reading(noon.Add(time.Second), bucket("c", "x", 500, 1000, 7), bucket("b", "x", -5, 10, 0), bucket("a", "x", 90, 100, 9)), before, nil)
	names := func() string {
		text := ""
		for _, r := range rows {
			text += r.Entity
		}
		return text
	}
	for by, want := range map[Order]string{Fullest: "bca", Busiest: "acb", ByName: "abc"} {
		Sort(rows, by)
		assert.Equal(t, want, names(), by)
	}
}

// busy is a screen with everything on it.
func busy(width int) Screen {
	_, before := Rows(reading(noon.Add(-2*time.Second), bucket("key-1", "gpt-4", 60, 100, 100)), Counts{}, nil)
	r := reading(noon, bucket("key-1", "gpt-4", 10, 100, 150), bucket("key-2", "claude", -30, 60, 90),
		bucket("a-key-with-a-very-long-name-that-fills-a-line-of-its-own", "gpt-4", 100, 100, 0), bucket("shut", "gpt-4", 100, 100, 0),
		bucket("evil\x1b[2Jname\n", "gpt-4", 20, 100, 0), bucket("日本語", "gpt-4", 55, 100, 0))
	r.Blocked = map[Key]sources.Source{{"shut", "gpt-4"}: sources.Entity}
	rows, _ := Rows(r, before, dynalimit.Amounts{"rpm": 50})
	Sort(rows, Fullest)
	return Screen{
		Title: "buckets of gpt-4", Note: What{Resource: "gpt-4"}.Note(), Rows: rows, Last: r, Style: &term.Output{Width: width},
	}
}

// TestScreens: what is drawn at several widths is as it was looked at, and always fits.
func TestScreens(t *testing.T) {
	for name, change := range map[string]func(*Screen){
		"rows": func(*Screen) {},
		"quotas": func(s *Screen) {
			s.Rows, _ = Rows(reading(noon, quota(5, 100), bucket("key-1", "gpt-4", 60, 100, 100)), Counts{}, dynalimit.Amounts{"usd": 50})
		},
		"money": func(s *Screen) {
			r := reading(noon, quota(4_983_500, 50_000_000))
			r.Money = map[rowKey]bool{{"key-1", "all", "usd"}: true}
			before := Counts{noon.Add(-2 * time.Second), map[rowKey]int64{{"key-1", "all", "usd"}: -33_000}}
			s.Rows, _ = Rows(r, before, dynalimit.Amounts{"usd": 50})
		},
		"nothing": func(s *Screen) { s.Rows = nil },
		"cut":     func(s *Screen) { s.Last.Cut = true },
		"choices": func(s *Screen) { s.Rows, s.Choices = nil, []string{"claude", "gpt-4"} },
		"none":    func(s *Screen) { s.Rows, s.Choices = nil, []string{} },
	} {
		var all strings.Builder
		for _, width := range []int{120, 80, 40, 20, 5, 1} {
			s := busy(width)
			change(&s)
			fmt.Fprintf(&all, "%d columns\n", width)
			for _, line := range s.Lines() {
				assert.LessOrEqual(t, ansi.StringWidth(line), width, "%s at %d: %s", name, width, line)
				assert.NotContains(t, line, "\x1b", "no colour was allowed, and no name brings its own")
				all.WriteString("|" + line + "\n")
			}
		}
		path := filepath.Join("testdata", name+".txt")
		if *update {
			require.NoError(t, os.MkdirAll("testdata", 0o755))
			require.NoError(t, os.WriteFile(path, []byte(all.String()), 0o600))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, string(want), all.String(), "%s: if this is meant, run the test with -update", name)
	}
}
