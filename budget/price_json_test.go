package budget

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPricesAreConvertedExactly: as decimals, and to the nearest where they have more.
func TestPricesAreConvertedExactly(t *testing.T) {
	for _, tc := range []struct {
		text  string
		scale int64
		want  int64
	}{
		{"3e-06", 1e12, 3_000_000},
		{"0.000003", 1e12, 3_000_000},
		{"8.75e-9", 1e12, 8_750},
		{"3E-07", 1e12, 300_000},
		{"0.00875", 1e6, 8_750},
		{"2.675", 1e6, 2_675_000}, // no binary fraction
		{"0.1", 1e6, 100_000},
		{"1000000", 1e6, maxRate},
		{"0.0000005", 1e6, 1},
		{"0.0000014", 1e6, 1},
		{"0.0000015", 1e6, 2},
		{"1e-40", 1e6, 1}, // never free
		{"0", 1e6, FreeRate},
		{"0.000", 1e12, FreeRate},
		{"-0", 1e12, FreeRate},
	} {
		got, err := rateFrom([]byte(tc.text), tc.scale)
		require.NoError(t, err, tc.text)
		assert.Equal(t, tc.want, got, tc.text)
	}
	for _, text := range []string{
		"", "NaN", `"3e-6"`, "null", "true", "-1", "-1e-9", "1e400", "1e41", "1e-41", "1e99999999999999999999", "1000000.0000005",
		"0." + strings.Repeat("1", 70), "Infinity", "0x10", "1e", "[1]", "{}", "+1", "1_0", "1x0", "1/3",
	} {
		_, err := rateFrom([]byte(text), 1e6)
		require.Error(t, err, text)
	}
}

// hostileLists are no lists, and what is wrong with them.
var hostileLists = map[string]string{
	"":                                 "is not JSON",
	"null":                             "is not an",
	`"a"`:                              "is not an",
	"1e400":                            "is not an",
	"\xef\xbb\xbf[]":                   "is not JSON",
	"[] []":                            "goes on",
	"{}{}":                             "goes on",
	"[":                                "is not JSON",
	`{"a":1,"a":2}`:                    `has "a" twice`,
	`[{"id":"x","id":"y"}]`:            `has "id" twice`,
	`[{"models":[],"m\u006fdels":[]}]`: `has "models" twice`,
	`{"a":NaN}`:                        "is not JSON",
	strings.Repeat("[", 25):            "nested deeper",
	strings.Repeat(`{"a":`, 100_000):   "nested deeper",
	"[1]":                              "without models",
	`[{"id":"p"}]`:                     "without models",
	`[{"id":"p","models":{}}]`:         "without models",
}

func TestWhatIsNoPriceListIsRefused(t *testing.T) {
	for text, reason := range hostileLists {
		list, err := LoadPrices(strings.NewReader(text), FormatAny)
		var bad *PriceListError
		require.ErrorAs(t, err, &bad, text[:min(len(text), 40)])
		assert.Contains(t, bad.Error(), reason)
		assert.Empty(t, list.Prices)
	}
	_, err := LoadGenAIPrices(strings.NewReader("{}"))
	require.ErrorAs(t, err, new(*PriceListError))
	_, err = LoadLiteLLM(strings.NewReader("[]"))
	require.ErrorAs(t, err, new(*PriceListError))
	_, err = LoadPrices(strings.NewReader("[]"), "toml")
	requireCode(t, err, CodeInvalidRequest)
	_, err = LoadPrices(nil, FormatAny)
	requireCode(t, err, CodeInvalidRequest)

	broken := errors.New("connection reset")
	_, err = LoadPrices(iotest.ErrReader(broken), FormatAny)
	require.ErrorIs(t, err, broken)
	require.ErrorAs(t, err, new(*PriceListError))
}

// endless repeats a text.
type endless string

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], e)
	}
	return n, nil
}

// TestALargeListIsRefusedBeforeItIsKept: also one that never ends.
func TestALargeListIsRefusedBeforeItIsKept(t *testing.T) {
	for _, text := range []endless{" ", "[", "1", `"`} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := LoadPrices(text, FormatAny)
		runtime.ReadMemStats(&after)
		var bad *PriceListError
		require.ErrorAs(t, err, &bad)
		assert.Contains(t, bad.Reason, "16 MiB")
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<20))
	}
	var models strings.Builder
	for i := range maxListModels + 1 {
		models.WriteString(`,"` + uuid(i) + `":0`)
	}
	_, err := LoadLiteLLM(strings.NewReader(`{"x":0` + models.String() + "}"))
	require.ErrorAs(t, err, new(*PriceListError))
	_, err = LoadGenAIPrices(strings.NewReader(`[{"models":[0` + strings.Repeat(",0", maxListModels) + `]}]`))
	require.ErrorAs(t, err, new(*PriceListError))
}

// TestRowsThatAreNoPricesAreSkipped, each with its reason, and the others taken.
func TestRowsThatAreNoPricesAreSkipped(t *testing.T) {
	const good = `"input_cost_per_token":1e-6,"output_cost_per_token":1e-6`
	list, err := LoadLiteLLM(strings.NewReader(`{"good":{` + good + `},"text":{"input_cost_per_token":"1e-6","output_cost_per_token":1e-6},
		"huge":{"input_cost_per_token":1e400,"output_cost_per_token":1},"negative":{"input_cost_per_token":-1,"output_cost_per_token":1},
		"case":{"INPUT_COST_PER_TOKEN":1,"output_cost_per_token":1},"array":[],"null":null,"":{` + good + `},
		"bedrock/us-gov-west-1/m":{` + good + `},"bedrock/us-east-1/1-month-commitment/m":{` + good + `},
		"nothing above":{` + good + `,"input_cost_per_token_above_200k_tokens":null},
		"` + strings.Repeat("x", 300) + `":{` + good + `}}`))
	require.NoError(t, err)
	var taken []string
	for _, p := range list.Prices {
		taken = append(taken, p.Model)
	}
	assert.Equal(t, []string{"good", "nothing above"}, taken)
	assert.Len(t, list.Skipped, 10)

	list, err = LoadGenAIPrices(strings.NewReader(`[{"id":"p","models":[1,{},{"id":1,"prices":{"input_mtok":1,"output_mtok":1}},
		{"id":"text","prices":{"input_mtok":"1","output_mtok":1}},
		{"id":"order","prices":[{"constraint":{"start_date":"2026-02-01"},"prices":{"input_mtok":1,"output_mtok":1}},
		  {"constraint":{"start_date":"2026-01-01"},"prices":{"input_mtok":1,"output_mtok":1}}]},
		{"id":"day","prices":[{"constraint":{"start_date":"2026-02-30"},"prices":{"input_mtok":1,"output_mtok":1}}]},
		{"id":"batch","prices":[{"prices":{"input_mtok":1,"output_mtok":1}},
		  {"constraint":{"start_date":"2026-02-01","mode":"batch"},"prices":{"input_mtok":1,"output_mtok":1}}]},
		{"id":"flat since","prices":[{"prices":{"input_mtok":{"base":1},"output_mtok":1}},
		  {"constraint":{"start_date":"2026-02-01","start_time":null},"prices":{"input_mtok":1,"output_mtok":2}}]},
		{"id":"tiers since","prices":[{"prices":{"input_mtok":1,"output_mtok":2}},
		  {"constraint":{"start_date":"2026-02-01"},"prices":{"input_mtok":{"base":1},"output_mtok":1}}]}]}]`))
	require.NoError(t, err)
	require.Len(t, list.Prices, 1)
	assert.Equal(t, "flat since", list.Prices[0].Model)
	assert.Equal(t, at(t, "2026-02-01T00:00:00Z"), list.Prices[0].EffectiveFrom)
	assert.Len(t, list.Skipped, 8)
}

// TestAListThatIsCutIsRefused wherever it was cut: what arrived of it is not taken.
func TestAListThatIsCutIsRefused(t *testing.T) {
	for _, whole := range []string{
		`[{"id":"p","models":[{"id":"m","prices":{"input_mtok":3,"output_mtok":1.5}}]},{"id":"q","models":[]}]`,
		`{"m":{"input_cost_per_token":1e-6,"output_cost_per_token":2e-6},"n":{"input_cost_per_token":1e-6,"output_cost_per_token":2e-6}}`,
	} {
		for n := range whole {
			_, err := LoadPrices(strings.NewReader(whole[:n]), FormatAny)
			require.ErrorAs(t, err, new(*PriceListError), whole[:n])
		}
		list, err := LoadPrices(strings.NewReader(whole), FormatAny)
		require.NoError(t, err)
		assert.NotEmpty(t, list.Prices)
	}
}

// fuzzList checks what any text gives: a list of prices that a keeper takes, or a typed
// error and nothing.
func fuzzList(t *testing.T, text string, load func(io.Reader, ...string) (PriceList, error)) {
	list, err := load(strings.NewReader(text))
	if err != nil {
		require.ErrorAs(t, err, new(*PriceListError))
		assert.Empty(t, list.Prices)
		assert.Empty(t, list.Skipped)
		return
	}
	for _, p := range list.Prices {
		require.NoError(t, p.validate())
		assert.NotZero(t, p.Input)
		assert.NotZero(t, p.Output)
	}
	byName, err := newPriceBook(list.Prices)
	require.NoError(t, err)
	now := fixtureNow
	for name := range byName {
		l := newListing(name, "list", byName[name], nil, priceLayers{{layerTable, priceBook{}}}, now)
		r := l.review(now)
		for _, p := range r.stored {
			require.NoError(t, p.validate())
			require.False(t, p.EffectiveFrom.Before(now), "backdated")
			require.NotZero(t, max(p.Input, 0), "free")
		}
		again := newListing(name, "list", byName[name], r.stored, priceLayers{{layerTable, priceBook{name: r.stored}}}, now)
		again.had = r.had
		require.Empty(t, again.review(now).accepted, "once")
	}
}

func FuzzLoadGenAIPrices(f *testing.F) {
	for text := range hostileLists {
		if len(text) < 1000 {
			f.Add(text)
		}
	}
	for _, number := range []string{"1", "1e400", "-1", `"NaN"`, "0", "0.00875", `{"base":1,"tiers":[]}`, "null", "1e-40", "999999"} {
		f.Add(`[{"id":"p","models":[{"id":"global.m","prices":{"input_mtok":` + number + `,"output_mtok":2,"cache_read_mtok":` + number + `}},
			{"id":"m","prices":[{"prices":{"input_mtok":1,"output_mtok":1}},{"constraint":{"start_date":"2026-09-01"},"prices":{"input_mtok":` + number + `,"output_mtok":1}}]}]}]`)
	}
	f.Fuzz(func(t *testing.T, text string) { fuzzList(t, text, LoadGenAIPrices) })
}

func FuzzLoadLiteLLM(f *testing.F) {
	for text := range hostileLists {
		if len(text) < 1000 {
			f.Add(text)
		}
	}
	for _, number := range []string{"1", "1e400", "-1", `"NaN"`, "0", "8.75e-9", "null", "1e-40", "3E-06"} {
		f.Add(`{"m":{"litellm_provider":"openai","input_cost_per_token":` + number + `,"output_cost_per_token":1e-6,"cache_read_input_token_cost":` + number + `},
			"azure/m":{"input_cost_per_token":2e-6,"output_cost_per_token":` + number + `},"us.m":{"input_cost_per_token":1e-6,"output_cost_per_token":1e-6}}`)
	}
	f.Fuzz(func(t *testing.T, text string) { fuzzList(t, text, LoadLiteLLM) })
}
