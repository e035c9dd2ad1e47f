package main

import (
	"bufio"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// metrics are a benchmark's values by unit.
type metrics map[string]float64

// parseBenchmarks adds the results in the output of go test -bench to all, by the benchmark's name; a later
// result of a name replaces an earlier one. It skips other lines, and fails for a value other than a number.
func parseBenchmarks(output string, all map[string]metrics) error {
	lines := bufio.NewScanner(strings.NewReader(output))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		m := metrics{}
		for i := 2; i+1 < len(fields); i += 2 {
			n, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return fmt.Errorf("%s: %w", fields[0], err)
			}
			m[fields[i+1]] = n
		}
		all[benchmarkName(fields[0])] = m
	}
	return lines.Err()
}

var processors = regexp.MustCompile(`-\d+$`)

// benchmarkName returns the name of a benchmark without its prefix and the number of processors.
func benchmarkName(field string) string {
	return processors.ReplaceAllString(strings.TrimPrefix(field, "Benchmark"), "")
}
