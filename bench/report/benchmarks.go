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

// parseBenchmarks reads the output of go test -bench.
func parseBenchmarks(output string) (map[string]metrics, error) {
	all := map[string]metrics{}
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
				return nil, fmt.Errorf("%s: %w", fields[0], err)
			}
			m[fields[i+1]] = n
		}
		all[benchmarkName(fields[0])] = m
	}
	return all, lines.Err()
}

var processors = regexp.MustCompile(`-\d+$`)

// benchmarkName drops the prefix and the number of processors.
func benchmarkName(field string) string {
	return processors.ReplaceAllString(strings.TrimPrefix(field, "Benchmark"), "")
}

var heap = regexp.MustCompile(`heap in use: .*, ([0-9.]+) MB after 100000, ([0-9.]+) MB after (\d+)`)

// parseHeap reads what TestMemoryIsBounded logs: the heap after 100,000 keys and
// after more, in MB.
func parseHeap(output string) (few, many float64, keys int, err error) {
	found := heap.FindStringSubmatch(output)
	if found == nil {
		return 0, 0, 0, fmt.Errorf("no heap in the output: %s", output)
	}
	few, _ = strconv.ParseFloat(found[1], 64) // digits, as matched
	many, _ = strconv.ParseFloat(found[2], 64)
	keys, err = strconv.Atoi(found[3])
	return few, many, keys, err
}
