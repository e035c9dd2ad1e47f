package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseBenchmarks(t *testing.T) {
	got, err := parseBenchmarks(`goos: linux
BenchmarkAcquire/stub-2         	   34494	       395.2 bare-allocs	     1.25 cpu-ratio
BenchmarkArithmetic/level-16 	 100 	 11.6 ns/op
BenchmarkInProcess/x-time-rate/alone 	 12769776	        90.65 ns/op	       0 B/op
PASS
`)
	require.NoError(t, err)
	require.Equal(t, map[string]metrics{
		"Acquire/stub":                {"bare-allocs": 395.2, "cpu-ratio": 1.25},
		"Arithmetic/level":            {"ns/op": 11.6},
		"InProcess/x-time-rate/alone": {"ns/op": 90.65, "B/op": 0},
	}, got)
	_, err = parseBenchmarks("BenchmarkX 1 fast ns/op\n")
	require.ErrorContains(t, err, "fast")
}

func TestParseHeap(t *testing.T) {
	few, many, keys, err := parseHeap("    keys_test.go:65: heap in use: 17.5 MB after 10000 keys, 19.2 MB after 100000, 20.0 MB after 1000000\n")
	require.NoError(t, err)
	require.InDelta(t, 19.2, few, 0)
	require.InDelta(t, 20.0, many, 0)
	require.Equal(t, 1_000_000, keys)
	_, _, _, err = parseHeap("PASS")
	require.Error(t, err)
}

func TestTable(t *testing.T) {
	var out strings.Builder
	failed, err := printTable(&out, []row{
		{"a", 1.0625, "", atMost(1.1), "near"},
		{"bb", 19000, "", atLeast(20_000), ""},
		{"c", 0, "", exactly(0), ""},
		{"d", 12.25, "ns", bar{}, ""},
	})
	require.NoError(t, err)
	require.Equal(t, 1, failed)
	require.Equal(t, strings.TrimLeft(`
| measured | result  | must be | holds | remark |
|----------|---------|---------|-------|--------|
| a        | 1.062   | ≤ 1.100 | yes   | near   |
| bb       | 19000   | ≥ 20000 | NO    |        |
| c        | 0       | = 0     | yes   |        |
| d        | 12.2 ns |         |       |        |
`, "\n"), out.String())
}

func TestNumber(t *testing.T) {
	for want, v := range map[string]float64{"0": 0, "-3": -3, "0.0078": 0.0078, "0.500": 0.5, "1.182": 1.1819, "42.1": 42.13, "1234": 1234.4, "2000000": 2e6} {
		require.Equal(t, want, number(v))
	}
}

func TestFleetRows(t *testing.T) {
	s := simulation{Fleet: "B", Goals: []fleetGoal{{What: "share failed", Value: 0.5}, {What: "admitted ÷ limit", Value: 0.98, Bound: 0.99, AtLeast: true}}}
	s.Ledger.Lost = -2000
	rows := s.rows()
	require.Len(t, rows, 3)
	require.Equal(t, "B: share failed", rows[0].what)
	require.NotEmpty(t, rows[0].note)
	require.False(t, rows[0].bar.holds(rows[0].value))
	require.False(t, rows[1].bar.holds(rows[1].value), "at least")
	require.True(t, atLeast(0.97).holds(rows[1].value))
	require.InDelta(t, 2, rows[2].value, 0)
	require.False(t, rows[2].bar.holds(rows[2].value))
	require.NotContains(t, rows[0].note, "lapsed")

	s.Prefetch, s.Excess = time.Second, 2
	rows = s.rows()
	require.Contains(t, rows[0].note, "lapsed")
	require.True(t, rows[2].bar.holds(rows[2].value), "refill × Prefetch is allowed")
	s.Ledger.Lost = -2001
	require.False(t, s.tooMuch().bar.holds(s.tooMuch().value))
}

// What keeper reports is shown, and what it missed.
func TestKeeperRows(t *testing.T) {
	var s served
	require.NoError(t, json.Unmarshal([]byte(`{"name": "a load", "virtual_time": true, "write_units_per_submission": 2.41,
		"routes": [{"route": "submitUsage", "answered_per_second": 503, "took": {"p50_ns": 10300000, "p99_ns": 15000000}}],
		"dollars_a_month": {"total": 2000.4}, "goals": [{"what": "p99", "value": 21, "bound": 20}, {"what": "kept up", "value": 1, "bound": 0.99, "at_least": true}]}`), &s))
	rows := goalRows(s.Name, s.remark(), s.Goals)
	require.Len(t, rows, 2)
	require.Equal(t, "a load: p99", rows[0].what)
	require.Equal(t, "503/s of submitUsage: p50 10.3ms, p99 15ms; 2.41 write units a submission; $2000 a month; virtual time", rows[0].note)
	require.False(t, rows[0].bar.holds(rows[0].value))
	require.Equal(t, row{"— kept up", 1, "", atLeast(0.99), ""}, rows[1])
}

// A program that fails has its words shown all the same.
func TestOutputOfWhatFailed(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "keeper"), []byte("#!/bin/sh\nprintf '{\"goals\":[]}'\nexit 1\n"), 0o700)) //nolint:gosec // a program has to be executable
	r := &reporter{dir: dir, stderr: io.Discard, limit: time.Minute}
	out, err := r.output(t.Context(), "keeper")
	require.Error(t, err)
	require.JSONEq(t, `{"goals":[]}`, string(out))
}
