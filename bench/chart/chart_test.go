package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const reports = `
{"fleet": "A: 50 × 100/s below the limit", "failed_share": 0, "attempted_writes_per_second": 807.3, "granted_after": {"p99_ns": 68600000}}
{"fleet": "A & Prefetch", "failed_share": 0.00001, "attempted_writes_per_second": 88.8, "granted_after": {"p99_ns": 1000}}`

func TestReadPairsFleetsWithWhatTheyCameToBefore(t *testing.T) {
	fleets, err := read(strings.NewReader(reports))
	require.NoError(t, err)
	require.Len(t, fleets, 2)
	require.Equal(t, result{0, 807.3, 68600 * time.Microsecond}, fleets[0].now)
	require.NotNil(t, fleets[0].before)
	require.InDelta(t, 3010, fleets[0].before.writes, 0)
	require.Nil(t, fleets[1].before)
}

func TestReadRefusesWhatIsNoFleet(t *testing.T) {
	for text, want := range map[string]string{"": "nothing on the input", `{"offered": 3}`: "names no fleet", "{": "EOF"} {
		_, err := read(strings.NewReader(text))
		require.ErrorContains(t, err, want, text)
	}
}

func TestDrawIsWellFormed(t *testing.T) {
	fleets, err := read(strings.NewReader(reports))
	require.NoError(t, err)
	chart := draw(fleets)
	for d := xml.NewDecoder(strings.NewReader(chart)); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	for _, text := range []string{"A &amp; Prefetch", ">3,010<", ">807<", ">1.9 %<", ">69 ms<", "prefers-color-scheme: dark"} {
		require.Contains(t, chart, text)
	}
}
