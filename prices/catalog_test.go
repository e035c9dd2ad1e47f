package prices

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
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
		require.NoError(t, p.Validate())
		u, err := url.Parse(p.Source)
		require.NoError(t, err)
		assert.Equal(t, "https", u.Scheme, p.Model)
		hosts[u.Hostname()]++
		assert.True(t, parseDay(p.Checked).After(at(t, "2025-01-01T00:00:00Z")), p.Model)
		assert.Positive(t, p.Input, p.Model)
		assert.Positive(t, p.Output, p.Model)
		id := fmt.Sprint(p.Model, p.Scope, p.EffectiveFrom)
		assert.False(t, seen[id], "%s twice", id)
		seen[id] = true
	}
	for _, host := range []string{"aws.amazon.com", "www.anthropic.com", "ai.google.dev", "platform.openai.com"} {
		assert.GreaterOrEqual(t, hosts[host], 10, host)
	}
	assert.Len(t, hosts, 4)
}

// loaded is a list of testdata.
func loaded(t testing.TB, file string, providers ...string) List {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", file))
	require.NoError(t, err)
	defer func() { assert.NoError(t, f.Close()) }()
	list, err := Load(f, providers...)
	require.NoError(t, err)
	return list
}

// TestTheCatalogHasThePricesOfLiteLLM for models that both have, for each class to which
// both give one.
func TestTheCatalogHasThePricesOfLiteLLM(t *testing.T) {
	day := at(t, "2026-08-21T12:00:00Z")
	list, compared := loaded(t, "litellm.json"), 0
	catalog, err := NewBook(Catalog())
	require.NoError(t, err)
	book, err := NewBook(list.Prices)
	require.NoError(t, err)
	for _, p := range list.Prices {
		name, scope := SplitModel(p.Model)
		q, ok := catalog.Lookup(ModelNames(name), scope, day)
		if !ok || p.Model == cheaperUntil2027 {
			continue
		}
		want, ok := book.Lookup(ModelNames(name), scope, day)
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
	for _, c := range classes {
		x, y := *c.Rate(&a), *c.Rate(&b)
		if x != 0 && y != 0 {
			assert.Equal(t, x, y, "%s: %s", model, c.Name)
		}
	}
}

// at is an instant in RFC 3339.
func at(t testing.TB, text string) time.Time {
	t.Helper()
	instant, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return instant
}
