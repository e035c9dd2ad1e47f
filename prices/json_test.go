package prices

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/fault"
)

// TestPricesAreConvertedExactly: as decimals, and to the nearest where they have more.
func TestPricesAreConvertedExactly(t *testing.T) {
	for text, want := range map[string]int64{
		"3e-06": 3_000_000, "0.000003": 3_000_000, "8.75e-9": 8_750, "3E-07": 300_000,
		"0.000002675": 2_675_000, "1e-7": 100_000, // no binary fraction
		"1": maxRate, "0.0000000000005": 1, "1.4e-12": 1, "1.5e-12": 2,
		"1e-40": 1, // never free
		"0":     FreeRate, "0.000": FreeRate, "-0": FreeRate,
	} {
		got, err := rateFrom([]byte(text))
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{
		"", "NaN", `"3e-6"`, "null", "true", "-1", "-1e-9", "1e400", "1e41", "1e-41", "1e99999999999999999999", "1.0000000000005",
		"0." + strings.Repeat("1", 70), "Infinity", "0x10", "1e", "[1]", "{}", "+1", "1_0", "1x0", "1/3",
	} {
		_, err := rateFrom([]byte(text))
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
	"[1]":                              "not an array of prices",
	`[{"model":"p"}]`:                  "not an array of prices",
	`[{"model_id":"p","scope":1}]`:     "not an array of prices",
}

func TestWhatIsNoPriceListIsRefused(t *testing.T) {
	for text, reason := range hostileLists {
		list, err := Load(strings.NewReader(text))
		require.ErrorIs(t, err, ErrList, text[:min(len(text), 40)])
		assert.ErrorContains(t, err, reason)
		assert.Empty(t, list.Prices)
	}
	_, err := Load(nil)
	require.ErrorAs(t, err, new(*fault.ValidationError))

	broken := errors.New("connection reset")
	_, err = Load(iotest.ErrReader(broken))
	require.ErrorIs(t, err, broken)
	require.ErrorIs(t, err, ErrList)
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
		_, err := Load(text)
		runtime.ReadMemStats(&after)
		require.ErrorIs(t, err, ErrList)
		assert.ErrorContains(t, err, "16 MiB")
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(256<<20))
	}
	var models strings.Builder
	for i := range maxListModels + 1 {
		models.WriteString(fmt.Sprintf(`,"%d":0`, i))
	}
	_, err := Load(strings.NewReader(`{"x":0` + models.String() + "}"))
	require.ErrorIs(t, err, ErrList)
	_, err = Load(strings.NewReader(`[{}` + strings.Repeat(",{}", maxListModels) + `]`))
	require.ErrorIs(t, err, ErrList)
}

// TestRowsThatAreNoPricesAreSkipped, each with its reason, and the others taken.
func TestRowsThatAreNoPricesAreSkipped(t *testing.T) {
	const good = `"input_cost_per_token":1e-6,"output_cost_per_token":1e-6`
	list, err := Load(strings.NewReader(`{"good":{` + good + `},"text":{"input_cost_per_token":"1e-6","output_cost_per_token":1e-6},
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

	list, err = Load(strings.NewReader(`[{},{"model_id":"m","input_usd_micros_per_1m":1,"output_usd_micros_per_1m":-1},
		{"model_id":"n","effective_from":"2026-02-01T00:00:00Z","output_usd_micros_per_1m":-2},{"model_id":"o","scope":"local"}]`))
	require.NoError(t, err)
	require.Len(t, list.Prices, 1)
	assert.Equal(t, "m", list.Prices[0].Model)
	assert.Len(t, list.Skipped, 3)
}

// fuzzList checks what any text gives: a list of prices, or a typed error and nothing.
func fuzzList(t *testing.T, text string) {
	list, err := Load(strings.NewReader(text))
	if err != nil {
		require.ErrorIs(t, err, ErrList)
		assert.Empty(t, list.Prices)
		assert.Empty(t, list.Skipped)
		return
	}
	for _, p := range list.Prices {
		require.NoError(t, p.Validate())
	}
	_, err = NewBook(list.Prices)
	require.NoError(t, err)
}

func FuzzLoad(f *testing.F) {
	for text := range hostileLists {
		if len(text) < 1000 {
			f.Add(text)
		}
	}
	for _, number := range []string{"1", "1e400", "-1", `"NaN"`, "0", "8.75e-9", "null", "1e-40", "3E-06"} {
		f.Add(`[{"model_id":"global.m","input_usd_micros_per_1m":` + number + `,"output_usd_micros_per_1m":2},
			{"model_id":"m","effective_from":"2026-09-01T00:00:00Z","input_usd_micros_per_1m":1,"output_usd_micros_per_1m":` + number + `}]`)
		f.Add(`{"m":{"litellm_provider":"openai","input_cost_per_token":` + number + `,"output_cost_per_token":1e-6,"cache_read_input_token_cost":` + number + `},
			"azure/m":{"input_cost_per_token":2e-6,"output_cost_per_token":` + number + `},"us.m":{"input_cost_per_token":1e-6,"output_cost_per_token":1e-6}}`)
	}
	f.Fuzz(func(t *testing.T, text string) { fuzzList(t, text) })
}
