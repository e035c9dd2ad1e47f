package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" { // contend runs itself again
		if err := work(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// outcome is what a contest prints with -json.
func outcome(t *testing.T, args ...string) report {
	t.Helper()
	var out, progress bytes.Buffer
	require.NoError(t, run(t.Context(), append(args, "-json", "-latency=1ms", "-for=300ms"), &out, &progress), progress.String())
	var r report
	require.NoError(t, json.Unmarshal(out.Bytes(), &r))
	require.Zero(t, r.Failed, r.Errors)
	require.Positive(t, r.Acquired)
	require.Equal(t, r.Acquired, r.Latency.Count)
	require.True(t, r.Exact, "the store's counter is what was granted")
	require.GreaterOrEqual(t, r.Ledger.Lost, int64(0), "over-admitted")
	return r
}

func TestContend(t *testing.T) {
	tests := map[string][]string{
		"processes":    {"-processes=2", "-goroutines=4"},
		"in process":   {"-processes=0", "-limiters=2", "-goroutines=4", "-buckets=3"},
		"offered load": {"-processes=0", "-goroutines=8", "-load=500"},
		"exhausted":    {"-processes=0", "-limiters=2", "-goroutines=4", "-rate=100", "-burst=20", "-start=empty"},
		"waiting":      {"-processes=0", "-limiters=2", "-goroutines=4", "-rate=100", "-burst=20", "-start=empty", "-call=wait"},
	}
	for name, args := range tests {
		t.Run(name, func(t *testing.T) {
			r := outcome(t, args...)
			require.Positive(t, r.WriteUnits)
			if r.Start == "empty" {
				require.InDelta(t, 1.0, r.Used, 0, "from empty nothing is lost")
			}
		})
	}
}

func TestPlot(t *testing.T) {
	chart := filepath.Join(t.TempDir(), "chart.svg")
	outcome(t, "-processes=0", "-goroutines=2", "-plot="+chart)
	text, err := os.ReadFile(chart)
	require.NoError(t, err)
	require.Contains(t, string(text), "admitted")
}

func TestParse(t *testing.T) {
	s, err := parse([]string{"-processes=3", "-call=wait"}, t.Output())
	require.NoError(t, err)
	require.Equal(t, 3, s.callers())
	for _, args := range [][]string{
		{"-processes=-1"},
		{"-limiters=2"},
		{"-for=0"},
		{"-burst=0"},
		{"-amount=2", "-burst=1"},
		{"-start=half"},
		{"-call=ask"},
		{"-processes=0", "-endpoint=http://x"},
		{"more"},
	} {
		_, err := parse(args, t.Output())
		require.Error(t, err, args)
	}
}
