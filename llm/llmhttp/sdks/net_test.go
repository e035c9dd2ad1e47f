package sdks

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/dynalimittest"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
	"github.com/dynalimit/dynalimit/prices"
)

// The tests of TestNet… fail when a new version of an SDK has something that may cost, and that nobody has
// looked at: a count of a usage, a variant of a union, a service tier. Each is driven through a transport
// with a limit on money. What changes no price must be in a table with its reason.

// till is a transport with a limit on money, before a provider that answers always the same.
type till struct {
	*testing.T
	kind, answer string
	settled      llm.Settled
	transport    *llmhttp.Transport
}

// rates are those of a tier that is so many times as dear as the standard one.
func rates(times int64) prices.Rates {
	return prices.Rates{Input: 1_000_000 * times, Output: 5_000_000 * times, CacheRead: 100_000 * times, CacheWrite5m: 1_250_000 * times, CacheWrite1h: 2_000_000 * times}
}

// newTill prices a search, and each of the tiers that have a price in the tests.
func newTill(t *testing.T) *till {
	t.Helper()
	price := prices.CallPrice{
		Rates: rates(1), Sound: 3_000_000, Tools: map[string]int64{"web_search": 10_000, "file_search": 2_500, "mcp": 100, "web_fetch": 100, "code_interpreter": 100, "image_generation": 100, "shell": 100, "tool_search": 100},
		Variants: []prices.CallRates{{Tier: "priority", Rates: rates(2)}, {Tier: "flex", Rates: rates(3)}, {Tier: "us", Rates: rates(4)}},
	}
	usd := dynalimit.DailyMoneyQuota("usd", 1_000_000_000_000, "UTC")
	usd.PerModel = true
	w := &till{T: t, kind: "application/json"}
	guard, err := llm.New(&llm.Options{
		Limiter:   dynalimittest.New(t, usd),
		Limits:    map[string]llm.Measure{"usd": llm.Cost(prices.List{Calls: map[string]prices.CallPrice{"m": price, "other": {Rates: rates(7)}, "embeds": {Rates: prices.Rates{Input: 1_000_000}}}})},
		OnSettled: func(s llm.Settled) { w.settled = s },
	})
	require.NoError(t, err)
	w.transport, err = llmhttp.NewTransport(w, guard, &llmhttp.Options{Models: llmhttp.Models{"m": {}, "embeds": {}}, Unmetered: 10_000})
	require.NoError(t, err)
	return w
}

// RoundTrip is the provider's.
func (w *till) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {w.kind}}, Request: r,
		Body: io.NopCloser(strings.NewReader(w.answer)),
	}, nil
}

// call makes a call that is answered so; ok is false if it was refused.
func (w *till) call(path, body, answer string) (settled llm.Settled, ok bool) {
	w.Helper()
	w.answer, w.settled = answer, llm.Settled{}
	r, err := http.NewRequestWithContext(caller(context.WithoutCancel(w.Context())), http.MethodPost, "http://provider"+path, strings.NewReader(body))
	require.NoError(w, err)
	r.Header.Set("Content-Type", "application/json")
	res, err := w.transport.RoundTrip(r)
	require.NoError(w, err)
	said, err := io.ReadAll(res.Body)
	require.NoError(w, err)
	require.NoError(w, res.Body.Close())
	require.NoError(w, w.transport.Close(w.Context()))
	if res.StatusCode == http.StatusBadRequest {
		assert.Contains(w, string(said), "the call cannot be bounded", body)
		return w.settled, false
	}
	require.Equal(w, http.StatusOK, res.StatusCode, "%s: %s", body, said)
	return w.settled, true
}

// costs reports whether a request with something is refused, priced, or held for tokens that its bytes do
// not show.
func (w *till) costs(path, body string) bool {
	w.Helper()
	settled, ok := w.call(path, body, "{}")
	e := settled.Request.Estimate
	return !ok || len(e.Tools) > 0 || e.AddedTokens > 0 || e.Sound
}

// assertExcused says that what changes no price is just what the table has.
func assertExcused(t *testing.T, table map[string]string, free []string) {
	t.Helper()
	slices.Sort(free)
	free = slices.Compact(free)
	for _, name := range free {
		assert.NotEmpty(t, table[name], "%s changes no price: teach the dialect, or say here why it costs nothing", name)
	}
	for name := range table {
		assert.True(t, slices.Contains(free, name), "%s is read, or is not there: take it out", name)
	}
}

// variant is a value of a union, and the fields and members by which it is named.
type variant struct {
	name  string
	value reflect.Value
}

// json is the value as it is sent.
func (v variant) json(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	require.NoError(t, e.Encode(v.value.Interface()), v.name)
	return strings.TrimSpace(b.String())
}

// deepest is how many types lie within each other in a variant: what lies deeper is left out.
const deepest = 9

// variantsOf are values of a type that have each member of each union in it once.
func variantsOf(t reflect.Type, depth int) (all []variant) {
	value := reflect.New(t)
	switch {
	case depth == 0:
		return nil
	case strings.HasPrefix(t.Name(), "Opt["):
		for _, text := range []string{`"x"`, `1`, `true`} {
			if json.Unmarshal([]byte(text), value.Interface()) == nil {
				break
			}
		}
	case t.Kind() == reflect.Pointer:
		for _, v := range variantsOf(t.Elem(), depth) {
			p := reflect.New(t.Elem())
			p.Elem().Set(v.value)
			all = append(all, variant{v.name, p})
		}
		return all
	case t.Kind() == reflect.Slice:
		for _, v := range variantsOf(t.Elem(), depth-1) {
			all = append(all, variant{v.name, reflect.Append(reflect.MakeSlice(t, 0, 1), v.value)})
		}
		return all
	case t.Kind() == reflect.String:
		value.Elem().SetString("x")
	case t.Kind() == reflect.Struct:
		return variantsOfStruct(t, depth)
	}
	return []variant{{"", value.Elem()}}
}

// variantsOfStruct are the members of a union; of another struct it with each member of each union in it,
// and with none if none is required.
func variantsOfStruct(t reflect.Type, depth int) (all []variant) {
	base := reflect.New(t).Elem()
	var named []func()
	union, whole := false, true
	for f, field := range base.Fields() {
		if !f.IsExported() || f.Anonymous || f.Tag.Get("json") == "-" || strings.HasSuffix(f.Type.PkgPath(), "constant") {
			continue
		}
		union = union || strings.HasPrefix(f.Name, "Of")
		inner := variantsOf(f.Type, depth-1)
		if len(inner) == 0 && f.Tag.Get("api") == "required" {
			return nil // it lies too deep
		}
		for _, v := range inner {
			name := v.name
			if union {
				setType(v.value, f.Name)
				name = strings.TrimSpace(f.Name + " " + name)
			}
			if name == "" {
				field.Set(v.value)
				continue
			}
			whole = whole && f.Tag.Get("api") != "required"
			named = append(named, func() {
				one := reflect.New(t).Elem()
				one.Set(base)
				one.FieldByIndex(f.Index).Set(v.value)
				all = append(all, variant{name, one})
			})
		}
	}
	if !union && whole {
		all = append(all, variant{"", base})
	}
	for _, add := range named {
		add()
	}
	return all
}

// setType gives a member of a union its type where that is no constant; Anthropic's OfTool is "custom".
func setType(member reflect.Value, name string) {
	member = reflect.Indirect(member)
	if member.Kind() != reflect.Struct {
		return
	}
	if kind := member.FieldByName("Type"); kind.IsValid() && kind.Kind() == reflect.String && kind.String() == "x" && name != "OfTool" {
		kind.SetString(strings.ToLower(capital.ReplaceAllString(strings.TrimPrefix(name, "Of"), "${1}_$2")))
	} else if name == "OfTool" && kind.IsValid() {
		kind.SetString("custom")
	}
}

var capital = regexp.MustCompile("([a-z])([A-Z])")
