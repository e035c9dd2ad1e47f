package keeper

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget"
)

// TestMetricsAreThoseOfTheDocument: docs/keeper.md names each that there is, and no other.
func TestMetricsAreThoseOfTheDocument(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/keeper.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(page), "| metric, after `dynalimit_keeper_` |")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n\n")
	var documented []string
	for line := range strings.Lines(table) {
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(strings.Split(line+"||", "|")[1], -1) {
			documented = append(documented, name[1])
		}
	}
	m := newMetrics(time.Now)
	m.onSweep(nil)
	m.onRefresh(budget.PriceReport{}, nil)
	var text bytes.Buffer
	m.write(&text, readings{})
	var there []string
	for _, name := range regexp.MustCompile(`(?m)^# TYPE dynalimit_keeper_(\w+) `).FindAllStringSubmatch(text.String(), -1) {
		there = append(there, name[1])
	}
	assert.ElementsMatch(t, there, documented)
}
