package budget

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEachPriceOfTheCatalogHasASourceAndADay, and each is a price of one model and time.
func TestEachPriceOfTheCatalogHasASourceAndADay(t *testing.T) {
	hosts := map[string]int{}
	seen := map[string]bool{}
	for _, p := range Catalog() {
		require.NoError(t, p.validate())
		u, err := url.Parse(p.Source)
		require.NoError(t, err)
		assert.Equal(t, "https", u.Scheme, p.Model)
		hosts[u.Hostname()]++
		assert.True(t, p.Checked.After(at(t, "2025-01-01T00:00:00Z")), p.Model)
		assert.Equal(t, p.Checked.Truncate(24*time.Hour), p.Checked, p.Model)
		assert.Positive(t, p.Input, p.Model)
		assert.Positive(t, p.Output, p.Model)
		id := p.version("")
		assert.False(t, seen[id], "%s twice", id)
		seen[id] = true
	}
	for _, host := range []string{"aws.amazon.com", "www.anthropic.com", "ai.google.dev", "platform.openai.com"} {
		assert.GreaterOrEqual(t, hosts[host], 10, host)
	}
	assert.Len(t, hosts, 4)
}

// loaded is a list of testdata.
func loaded(t testing.TB, file string, providers ...string) PriceList {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "prices", file))
	require.NoError(t, err)
	defer func() { assert.NoError(t, f.Close()) }()
	list, err := LoadPrices(f, FormatAny, providers...)
	require.NoError(t, err)
	return list
}

func layersOf(t testing.TB, prices []Price) priceLayers {
	t.Helper()
	book, err := newPriceBook(prices)
	require.NoError(t, err)
	return priceLayers{{layerOptions, book}}
}

// TestBothFormatsGiveTheSamePrices to the models that both have, for each class to which
// both give one; and the catalog has no other.
func TestBothFormatsGiveTheSamePrices(t *testing.T) {
	// What LiteLLM says differently, and what genai-prices knows of it.
	differ := map[string]string{"gemini-3.6-flash": "cheaper until 2027, checked three weeks later"}
	day := at(t, "2026-08-21T12:00:00Z")
	genai, litellm := loaded(t, "genai-prices.json"), loaded(t, "litellm.json")
	one, two, catalog := layersOf(t, genai.Prices), layersOf(t, litellm.Prices), catalogLayers(t)
	compared := map[string]int{}
	for _, p := range litellm.Prices {
		q, _, ok := one.lookup(p.Model, day)
		if !ok || differ[p.Model] != "" {
			continue
		}
		compared["both"]++
		requireSameRates(t, p.Model, p.Rates, q.Rates)
	}
	for name, list := range map[string]PriceList{"genai-prices": genai, "litellm": litellm} {
		layers := map[string]priceLayers{"genai-prices": one, "litellm": two}[name]
		for _, p := range list.Prices {
			for _, when := range []time.Time{day, at(t, "2026-12-01T00:00:00Z"), at(t, "2027-02-01T00:00:00Z")} {
				q, _, ok := catalog.lookup(p.Model, when)
				if !ok || name == "litellm" && (!when.Equal(day) || differ[p.Model] != "") { // it knows no later day
					continue
				}
				want, _, ok := layers.lookup(p.Model, when)
				require.True(t, ok, p.Model)
				compared[name]++
				requireSameRates(t, p.Model, want.Rates, q.Rates)
			}
		}
	}
	assert.GreaterOrEqual(t, compared["both"], 40)
	assert.GreaterOrEqual(t, compared["genai-prices"], 200)
	assert.GreaterOrEqual(t, compared["litellm"], 70)
	var skipped []string
	for _, s := range slices.Concat(genai.Skipped, litellm.Skipped) {
		if strings.Contains(s.Reason, "context length") {
			skipped = append(skipped, s.Model)
		}
	}
	assert.Subset(t, skipped, []string{"claude-sonnet-4-5", "gpt-5.4", "gemini-2.5-pro"}, "one rate cannot tell their price")
}

// requireSameRates compares the classes for which both have a rate.
func requireSameRates(t testing.TB, model string, a, b Rates) {
	t.Helper()
	for _, c := range tokenClasses {
		x, y := *c.rate(&a), *c.rate(&b)
		if x != 0 && y != 0 {
			assert.Equal(t, x, y, "%s: %s", model, c.name)
		}
	}
}

// TestAnImportOfTheListsChangesLittle: the catalog is of their day.
func TestAnImportOfTheListsChangesLittle(t *testing.T) {
	w := newWorld(t)
	w.clock.Set(at(t, "2026-08-21T12:00:00Z"))
	for _, file := range []string{"genai-prices.json", "litellm.json"} {
		report := importing(t, w.a, loaded(t, file))
		for _, c := range report.Accepted {
			if c.Before != nil && c.Model != "gemini-3.6-flash" { // see TestBothFormatsGiveTheSamePrices
				requireSameRates(t, c.Model, *c.Before, *c.After)
			}
		}
		assert.NotEmpty(t, report.Unchanged)
		again := importing(t, w.a, loaded(t, file))
		assert.Empty(t, again.Accepted)
		assert.Equal(t, report.Held, again.Held)
		t.Log(file, len(report.Accepted), len(report.Unchanged), heldReasons(report))
	}
}
