package budget

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
		assert.True(t, catalogDay(p.Checked).After(at(t, "2025-01-01T00:00:00Z")), p.Model)
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
	list, err := LoadPrices(f, providers...)
	require.NoError(t, err)
	return list
}

func layersOf(t testing.TB, prices []Price) priceLayers {
	t.Helper()
	book, err := newPriceBook(prices)
	require.NoError(t, err)
	return priceLayers{{layerOptions, book}}
}

// TestTheCatalogHasThePricesOfLiteLLM for models that both have, for each class to which
// both give one.
func TestTheCatalogHasThePricesOfLiteLLM(t *testing.T) {
	day := at(t, "2026-08-21T12:00:00Z")
	list, catalog := loaded(t, "litellm.json"), catalogLayers(t)
	layers, compared := layersOf(t, list.Prices), 0
	for _, p := range list.Prices {
		q, _, ok := catalog.lookup(p.Model, day)
		if !ok || p.Model == cheaperUntil2027 {
			continue
		}
		want, _, ok := layers.lookup(p.Model, day)
		require.True(t, ok, p.Model)
		compared++
		requireSameRates(t, p.Model, want.Rates, q.Rates)
	}
	assert.GreaterOrEqual(t, compared, 70)
	var skipped []string
	for _, s := range list.Skipped {
		if strings.Contains(s.Reason, "context length") {
			skipped = append(skipped, s.Model)
		}
	}
	assert.Subset(t, skipped, []string{"gpt-5.4"}, "one rate cannot tell their price")
}

// cheaperUntil2027 has another price at LiteLLM, whose list is three weeks older.
const cheaperUntil2027 = "gemini-3.6-flash"

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

// TestAnImportOfTheListChangesLittle: the catalog is of their day.
func TestAnImportOfTheListChangesLittle(t *testing.T) {
	w := newWorld(t)
	w.clock.Set(at(t, "2026-08-21T12:00:00Z"))
	report := importing(t, w.a, loaded(t, "litellm.json"))
	for _, c := range report.Accepted {
		if c.Before != nil && c.Model != cheaperUntil2027 {
			requireSameRates(t, c.Model, *c.Before, *c.After)
		}
	}
	assert.NotEmpty(t, report.Unchanged)
	again := importing(t, w.a, loaded(t, "litellm.json"))
	assert.Empty(t, again.Accepted)
	assert.Equal(t, report.Held, again.Held)
}
