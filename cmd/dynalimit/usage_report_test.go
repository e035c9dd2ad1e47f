package main

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/report"
)

func TestUsageReportTranscript(t *testing.T) {
	s := weekOfUse(t)
	t.Chdir(withTestdata(t))
	s.golden("usage_report.txt", [][]string{
		{"usage", "report", "--since", "3d", "-o", "report.html"},
		{"usage", "report", "--entity", "team-a", "--from", "2026-01-21", "--to", "2026-01-22", "--by", "day", "--timezone", "Europe/Berlin", "--json"},
		{"usage", "report", "--resource", "claude", "--since", "8h", "--by", "day", "--json", "-o", "claude.html"},
		{"usage", "report", "--entity", "nobody", "--by", "month", "-o", "nobody.html"},
		{"usage", "report"},
		{"usage", "report", "--top", "11", "-o", "report.html"},
		{"usage", "report", "--entity", "a#b", "-o", "report.html"},
		{"usage", "report", "--timezone", "Local", "-o", "report.html"},
		{"usage", "report", "--by", "week", "-o", "report.html"},
		{"usage", "report", "--by", "hour", "--since", "300d", "-o", "report.html"},
		{"usage", "report", "--since", "1d", "-o", "no/such/report.html"},
	})
	page, err := os.ReadFile("report.html")
	require.NoError(t, err)
	assert.Contains(t, string(page), "<bdi>Usage of the table limits</bdi>")
	page, err = os.ReadFile("nobody.html")
	require.NoError(t, err)
	assert.Contains(t, string(page), "Nothing was used in this time.")
	assert.FileExists(t, "claude.html")
}

// reportOf is the report that some flags ask for.
func (s *shell) reportOf(flags ...string) (r report.Report) {
	s.t.Helper()
	require.NoError(s.t, json.Unmarshal([]byte(s.must(append([]string{"usage", "report", "--json"}, flags...)...)), &r))
	return r
}

// TestReportCountsEachLevelOnce: what all used is that of the entities that cascade no
// further, whether their hours are closed or not, and what a parent used is its own and
// its children's.
func TestReportCountsEachLevelOnce(t *testing.T) {
	t.Parallel()
	s := metered(t)
	s.at(21, 9, 10).use("key-1", "gpt-4", 1200).use("key-2", "gpt-4", 300).use("team-a", "gpt-4", 50).use("solo", "gpt-4", 7)
	s.at(21, 9, 30).fold(nil)
	tpm := func(r report.Report) report.Limit {
		require.Len(t, r.Resources, 1)
		require.Len(t, r.Resources[0].Limits, 2)
		require.Equal(t, "tpm", r.Resources[0].Limits[1].Name)
		return r.Resources[0].Limits[1]
	}
	names := func(l report.Limit) (all []string) {
		for _, e := range l.Entities {
			all = append(all, e.Entity)
		}
		return all
	}
	check := func(open bool) {
		t.Helper()
		all := tpm(s.reportOf("--from", "2026-01-21T09:00", "--to", "2026-01-21T10:00"))
		assert.Equal(t, []int64{1_557_000}, all.Total, "1200 + 300 + 50 + 7")
		assert.Equal(t, []string{"team-a", "key-2", "solo"}, names(all), "key-1 is in team-a")
		assert.Equal(t, []int64{1_250_000}, all.Entities[0].Values)
		assert.Equal(t, open, len(all.Marks) == 1 && all.Marks[0].Open)

		one := tpm(s.reportOf("--from", "2026-01-21T09:00", "--to", "2026-01-21T10:00", "--top", "1"))
		assert.Equal(t, []int64{1_557_000}, one.Total)
		assert.Equal(t, []string{"team-a"}, names(one))

		team := tpm(s.reportOf("--entity", "team-a", "--from", "2026-01-21T09:00", "--to", "2026-01-21T10:00"))
		assert.Equal(t, []int64{1_250_000}, team.Total)
		assert.Equal(t, []string{"key-1"}, names(team), "key-2 does not cascade")
		assert.Equal(t, "itself", team.Others)
	}
	check(true)
	s.at(22, 15, 0)
	closer, err := aggregator.NewCloser(s.db.Client(), "limits", &aggregator.CloserOptions{Now: s.clock})
	require.NoError(t, err)
	_, err = closer.CloseDue(t.Context())
	require.NoError(t, err)
	check(false)
}

// TestReportTellsGroups: a call is counted of its resource, and of the group once more.
func TestReportTellsGroups(t *testing.T) {
	t.Parallel()
	s := metered(t)
	s.must("resource", "set", "gpt-4", "--group", "all")
	s.must("resource", "set", "all", "tpm=1M")
	s.at(21, 9, 10).use("key-1", "gpt-4", 1200).use("solo", "claude", 7)
	s.at(21, 9, 30).fold(nil)
	totals, groups := map[string][]int64{}, []string{}
	for _, resource := range s.reportOf("--from", "2026-01-21T09:00", "--to", "2026-01-21T10:00").Resources {
		totals[resource.Name] = resource.Limits[len(resource.Limits)-1].Total
		if resource.Group {
			groups = append(groups, resource.Name)
		}
	}
	assert.Equal(t, map[string][]int64{"gpt-4": {1_200_000}, "all": {1_200_000}, "claude": {7_000}}, totals)
	assert.Equal(t, []string{"all"}, groups)
}
