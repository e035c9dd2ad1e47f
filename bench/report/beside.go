package main

import (
	"fmt"
	"math"
	"os"
	"strings"
)

// The shapes, limiters and latencies of Contend/beside.
var (
	besideShapes    = []string{"1x1", "1x32", "1x256", "4x32"}
	besideLimiters  = []string{"dynalimit", "prefetch", "redis_rate", "rueidis"}
	besideLatencies = []string{"5ms", "1ms", "500µs"}
)

// formatBeside returns Contend/beside as Markdown: a table of calls a second for each latency, and a chart of
// the first. It is empty without results.
func formatBeside(all map[string]metrics) string {
	var out strings.Builder
	for i, latency := range besideLatencies {
		rows := ""
		for _, limiter := range besideLimiters {
			cells := []string{limiter}
			for _, shape := range besideShapes {
				if m, ok := all["Contend/beside/"+latency+"/"+shape+"/"+limiter]; ok {
					cells = append(cells, fmt.Sprintf("%.0f, %s ms", m["acquires/s"], number(m["p50-ms"])))
				}
			}
			if len(cells) > len(besideShapes) {
				rows += "| " + strings.Join(cells, " | ") + " |\n"
			}
		}
		if rows == "" {
			continue
		}
		fmt.Fprintf(&out, "\n| calls a second and p50 behind %s | %s |\n|---%s|\n%s", latency, strings.Join(besideShapes, " | "), strings.Repeat("|--:", len(besideShapes)), rows)
		if i == 0 {
			out.WriteString(besideChart(all, latency))
		}
	}
	if out.Len() > 0 && !strings.Contains(out.String(), "| rueidis |") {
		out.WriteString("\nWithout Redis: there was no redis-server.\n")
	}
	return out.String()
}

// besideChart returns a chart of the calls a second of each limiter behind a latency. It leaves out
// Prefetch, which would dwarf the others.
func besideChart(all map[string]metrics, latency string) string {
	const width = 50
	most := 1.0
	var out strings.Builder
	each := func(do func(shape, limiter string, calls float64)) {
		for _, shape := range besideShapes {
			for _, limiter := range besideLimiters {
				if m, ok := all["Contend/beside/"+latency+"/"+shape+"/"+limiter]; ok && limiter != "prefetch" {
					do(shape, limiter, m["acquires/s"])
				}
			}
		}
	}
	each(func(_, _ string, calls float64) { most = max(most, calls) })
	out.WriteString("\n```text\n")
	each(func(shape, limiter string, calls float64) {
		fmt.Fprintf(&out, "%-6s %-11s %s %.0f\n", shape, limiter, strings.Repeat("█", int(math.Round(width*calls/most))), calls)
	})
	return out.String() + "```\n"
}

// The lines of a page around the table.
const besideBegins, besideEnds = "<!-- Contend/beside -->\n", "<!-- end of Contend/beside -->\n"

// writeBeside replaces the table in a Markdown page, between its two marks. It fails if a mark is
// missing.
func writeBeside(page, table string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, began := strings.Cut(string(text), besideBegins)
	_, after, ended := strings.Cut(rest, besideEnds)
	if !began || !ended {
		return fmt.Errorf("%s has no place for the table: %q and %q", page, besideBegins, besideEnds)
	}
	return os.WriteFile(page, []byte(before+besideBegins+table+"\n"+besideEnds+after), 0o644) //nolint:gosec // a page of the documentation, for everyone
}
