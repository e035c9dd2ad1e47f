package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseBenchmarks(t *testing.T) {
	got := map[string]metrics{}
	require.NoError(t, parseBenchmarks(`goos: linux
BenchmarkAcquire/stub-2         	   34494	       395.2 bare-allocs	     1.25 cpu-ratio
BenchmarkArithmetic/level-16 	 100 	 11.6 ns/op
BenchmarkInProcess/x-time-rate/alone 	 12769776	        90.65 ns/op	       0 B/op
PASS
`, got))
	require.Equal(t, map[string]metrics{
		"Acquire/stub":                {"bare-allocs": 395.2, "cpu-ratio": 1.25},
		"Arithmetic/level":            {"ns/op": 11.6},
		"InProcess/x-time-rate/alone": {"ns/op": 90.65, "B/op": 0},
	}, got)
	require.ErrorContains(t, parseBenchmarks("BenchmarkX 1 fast ns/op\n", got), "fast")
}

// TestRows: what was run is judged, with its remark; a value that is missing does not hold.
func TestRows(t *testing.T) {
	got := rows(map[string]metrics{
		"Keeper/mixed":      {"failed": 1}, // nothing must hold of it
		"Keeper/linger/5ms": {"failed": 1, "submit-p50-ms": 7.4},
	})
	require.Len(t, got, 2)
	require.Equal(t, "Keeper/linger/5ms", got[0].what)
	require.Equal(t, "NO", got[0].cells()[3])
	require.Contains(t, got[0].note, "7.400 submit-p50-ms")
	require.Equal(t, "NO", got[1].cells()[3], "kept-up is not in the output")
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
| ---      | ---     | ---     | ---   | ---    |
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

// TestBeside: what was run is one table for each latency, and a chart; rows of Redis may be
// missing, which is said.
func TestBeside(t *testing.T) {
	require.Empty(t, formatBeside(nil))
	all := map[string]metrics{}
	for i, shape := range besideShapes {
		for j, limiter := range besideLimiters[:2] {
			all["Contend/beside/5ms/"+shape+"/"+limiter] = metrics{"acquires/s": float64(1000*i + j), "p50-ms": 5.5}
		}
	}
	table := formatBeside(all)
	require.Equal(t, `
| calls a second and p50 behind 5ms | 1x1 | 1x32 | 1x256 | 4x32 |
|---|--:|--:|--:|--:|
| dynalimit | 0, 5.500 ms | 1000, 5.500 ms | 2000, 5.500 ms | 3000, 5.500 ms |
| prefetch | 1, 5.500 ms | 1001, 5.500 ms | 2001, 5.500 ms | 3001, 5.500 ms |

`+"```"+`text
1x1    dynalimit    0
1x32   dynalimit   █████████████████ 1000
1x256  dynalimit   █████████████████████████████████ 2000
4x32   dynalimit   ██████████████████████████████████████████████████ 3000
`+"```"+`

Without Redis: there was no redis-server.
`, table)
	for _, shape := range besideShapes {
		all["Contend/beside/5ms/"+shape+"/rueidis"] = metrics{"acquires/s": 1000}
	}
	require.NotContains(t, formatBeside(all), "Without Redis")
	require.Equal(t, "1x256 behind 5 ms: calls a second ÷ rueidis", rows(all)[1].what)
	require.Equal(t, "yes", rows(all)[1].cells()[3])

	page := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(page, []byte("before\n"+besideBegins+"old\n"+besideEnds+"after\n"), 0o600))
	require.NoError(t, writeBeside(page, "new\n"))
	got, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, "before\n"+besideBegins+"new\n\n"+besideEnds+"after\n", string(got))
	require.NoError(t, os.WriteFile(page, []byte("no place"), 0o600))
	require.ErrorContains(t, writeBeside(page, "new\n"), "no place")
}
