package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestShares(t *testing.T) {
	for _, c := range []struct {
		part, whole int64
		text, width string
	}{
		{1, 4, "25.0 %", "25.00"},
		{0, 4, "0.0 %", "0"},
		{1, 100_000, "< 0.1 %", "0.00"},
		{4, 4, "100.0 %", "100.00"},
		{-1, 4, "", "0"},
		{5, 4, "", "100.00"}, // another gave back more than it took
		{1, 0, "", "0"},
	} {
		assert.Equal(t, c.text, shareText(c.part, c.whole), "%+v", c)
		assert.Equal(t, c.width, barWidth(c.part, c.whole), "%+v", c)
	}
}

func TestOthersAreWhatNobodyNamedHas(t *testing.T) {
	l := Limit{
		Name: "rpm", Total: []int64{10, 20}, Others: "itself",
		Entities: []Series{{Entity: "a", Values: []int64{4, 5}}, {Entity: "b", Values: []int64{1, 0}}},
	}
	c := l.limitChart()
	require.Len(t, c.Series, 3)
	assert.Equal(t, line{Name: "itself", Rest: true, Values: []int64{5, 15}}, c.Series[2])
	assert.Equal(t, []int64{10, 20}, l.Total, "the report is left as it was")

	many := Limit{Name: "rpm", Total: []int64{12}}
	for range 12 {
		many.Entities = append(many.Entities, Series{Entity: "e", Values: []int64{1}})
	}
	c = many.limitChart()
	require.Len(t, c.Series, colours+1)
	assert.Equal(t, line{Name: "others", Rest: true, Values: []int64{2}}, c.Series[colours], "those without a colour are others")

	whole := Limit{Name: "rpm", Total: []int64{1}, Entities: []Series{{Entity: "a", Values: []int64{1}}}}
	assert.Len(t, whole.limitChart().Series, 1, "nobody else")
}

func TestOverviewSumsResources(t *testing.T) {
	r := Report{Window: "hour", Starts: make([]time.Time, 2)}
	for i := range 12 {
		n := int64(i + 1)
		r.Resources = append(r.Resources, Resource{Name: "m" + string(rune('a'+i)), Limits: []Limit{
			{Name: "rpm", Total: []int64{n, 0}, Marks: []Mark{{Window: 1, Unseen: 1, Unrecorded: n}, {Window: 0, Open: true}}},
		}})
	}
	r.Resources[3].Limits = append(r.Resources[3].Limits, Limit{Name: "tpm", Total: []int64{7, 7}})
	r.Resources = append(r.Resources, Resource{Name: "all", Group: true, Limits: []Limit{{Name: "rpm", Total: []int64{78, 0}}}})
	charts := r.overviewCharts()
	require.Len(t, charts, 2)
	assert.Equal(t, "ml", charts[0].Series[0].Name, "the largest first")
	require.Len(t, charts[0].Series, colours+1)
	assert.Equal(t, line{Name: "2 others", Rest: true, Values: []int64{3, 0}}, charts[0].Series[colours])
	assert.Equal(t, []Mark{{Window: 0, Open: true}, {Window: 1, Unrecorded: 78, Unseen: 12}}, charts[0].Marks)
	assert.Len(t, charts[1].Series, 1)
}

func TestNotesSayWhatIsNotCounted(t *testing.T) {
	assert.Empty(t, NotesOf(Report{Resources: []Resource{{Limits: []Limit{{Marks: []Mark{{Window: 1, Pending: 1}}}}}}}))
	assert.Equal(t, []string{
		"More may come in 2 hours: not all of it is counted yet.",
		"More was consumed in 1 hour than is counted: a bucket ended while the stream was not read.",
		"Some of 1 hour was consumed before, while the stream was not read: counters showed it with the next record.",
	}, NotesOf(Report{Window: "hour", Resources: []Resource{
		{Limits: []Limit{{Marks: []Mark{{Window: 1, Open: true, Unseen: 1}, {Window: 2, Open: true}}}}},
		{Limits: []Limit{{Marks: []Mark{{Window: 1, Open: true, Unrecorded: -1}}}}},
	}}))
}

func TestWrongReportsAreRefused(t *testing.T) {
	good := sampleOf(24)
	require.NoError(t, Write(io.Discard, good))
	for want, spoil := range map[string]func(*Report){
		"23 values for 24 windows":       func(r *Report) { r.Resources[0].Limits[0].Total = make([]int64, 23) },
		"25 values of \"search\" for 24": func(r *Report) { r.Resources[0].Limits[0].Entities[0].Values = make([]int64, 25) },
		"mark at window 24 of 24":        func(r *Report) { r.Resources[0].Limits[0].Marks = []Mark{{Window: 24}} },
		"at most 2500 are shown":         func(r *Report) { r.Starts = make([]time.Time, MaxWindows+1) },
	} {
		r := sampleOf(24)
		spoil(&r)
		assert.ErrorContains(t, Write(io.Discard, r), want)
	}
}

// TestPageIsOneFile: it asks for nothing, its policy names what it carries, and the same
// report gives the same bytes.
func TestPageIsOneFile(t *testing.T) {
	text := string(page(t, hostileReport()))
	assert.Equal(t, text, string(page(t, hostileReport())))
	for _, wanting := range []string{"<link", "src=\"", "url(", "@import", "style=\"", " onclick"} {
		assert.NotContains(t, text, wanting)
	}
	assert.Equal(t, 3, strings.Count(text, "<script"))
	assert.Equal(t, 3, strings.Count(text, "</script"))
	for _, part := range []string{style, library, code} {
		assert.Contains(t, text, ">"+part+"</", "as it was hashed")
	}
	assert.Contains(t, text, "Permission is hereby granted", "the licence of uPlot")
}

// TestSizes: what docs/usage.md says of a page's size.
func TestSizes(t *testing.T) {
	assert.InDelta(t, 72, len(page(t, Report{Table: "limits"}))>>10, 3, "KB of the page itself")
	month := len(page(t, sampleOf(31*24))) - len(page(t, Report{Table: "limits"}))
	charts := 4*5 + 2*2
	t.Logf("a month by the hour: %d KB", month>>10)
	assert.Less(t, month/(charts*31*24), 15, "bytes a value")
}

// TestVendoredFilesAreAsPublished compares them with what VENDORED.json says.
func TestVendoredFilesAreAsPublished(t *testing.T) {
	text, err := os.ReadFile("uplot/VENDORED.json")
	require.NoError(t, err)
	var vendored struct {
		Version string
		Files   map[string]string
	}
	require.NoError(t, json.Unmarshal(text, &vendored))
	entries, err := os.ReadDir("uplot")
	require.NoError(t, err)
	assert.Len(t, vendored.Files, len(entries)-1, "each file has its checksum")
	for name, want := range vendored.Files {
		sum := sha256.Sum256([]byte(embeddedFile("uplot/" + name)))
		assert.Equal(t, want, hex.EncodeToString(sum[:]), name)
	}
	assert.Contains(t, embeddedFile("uplot/uPlot.iife.min.js"), "(v"+vendored.Version+")")
}
