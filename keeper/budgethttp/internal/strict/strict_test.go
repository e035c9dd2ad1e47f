package strict

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type inner struct {
	Count int64 `json:"count,omitempty"`
}

type document struct {
	inner
	Name  string            `json:"name"`
	At    time.Time         `json:"at"`
	Inner inner             `json:"inner"`
	Many  []inner           `json:"many"`
	Map   map[string]inner  `json:"map"`
	Tags  map[string]string `json:"tags"`
	Raw   json.RawMessage   `json:"raw"`
	Kept  string            `json:"-"`
}

func TestWhatCanBeReadInOneWayIsRead(t *testing.T) {
	for _, text := range []string{
		`{}`, ` {"name":"x"} `, "{\"name\":\"x\"}\n", `{"tags":{"a":"1","A":"2"}}`, `{"count":1,"inner":{"count":2}}`,
		`{"many":[{"count":1},{}],"map":{"x":{"count":1}}}`, `{"raw":{"anything":[1,{"count":"x"}]}}`, `{"at":"2026-01-23T15:30:45Z"}`,
		`{"raw":[` + strings.Repeat("1,", MaxValues-3) + `1]}`,
		`{"raw":` + strings.Repeat("[", MaxDepth-1) + strings.Repeat("]", MaxDepth-1) + `}`,
	} {
		var d document
		assert.NoError(t, Unmarshal([]byte(text), &d), text)
	}
	var d document
	require.NoError(t, Unmarshal([]byte(`{"name":"x","inner":{"count":7},"tags":{"a":"1","A":"2"}}`), &d))
	assert.Equal(t, document{Name: "x", Inner: inner{7}, Tags: map[string]string{"a": "1", "A": "2"}}, d)
}

func TestWhatCanBeReadInTwoWaysIsRefused(t *testing.T) {
	for text, reason := range map[string]string{
		``:                                   "is no JSON",
		` `:                                  "is no JSON",
		`{`:                                  "is no JSON",
		`{"name":"x"`:                        "is no JSON",
		`{"name":"x",}`:                      "is no JSON",
		`{'name':'x'}`:                       "is no JSON",
		`{"name":"x"}{}`:                     "after its end",
		`{"name":"x"}]`:                      "after its end",
		`{"name":"x"} x`:                     "after its end",
		"\xef\xbb\xbf{}":                     "byte order mark",
		"{\"name\":\"\xff\"}":                "not UTF-8",
		`null`:                               "is null",
		`{"name":null}`:                      "name is null",
		`{"many":[null]}`:                    "many[0] is null",
		`{"name":"x","name":"y"}`:            "name is there twice",
		`{"name":"x","n\u0061me":"y"}`:       "name is there twice",
		`{"inner":{"count":1,"count":1}}`:    "inner.count is there twice",
		`{"tags":{"a":"1","a":"1"}}`:         "tags.a is there twice",
		`{"raw":{"a":1,"a":2}}`:              "raw.a is there twice",
		`{"Name":"x"}`:                       "Name is not known",
		`{"NAME":"x"}`:                       "NAME is not known",
		`{"inner":{"Count":1}}`:              "inner.Count is not known",
		`{"many":[{"count":1},{"COUNT":1}]}`: "many[1].COUNT is not known",
		`{"map":{"x":{"x":1}}}`:              "map.x.x is not known",
		`{"Kept":"x"}`:                       "Kept is not known",
		`{"-":"x"}`:                          "- is not known",
		`{"name":1}`:                         "name cannot be number",
		`{"inner":{"count":1.5}}`:            "inner.count cannot be number 1.5",
		`{"inner":{"count":9223372036854775808}}`: "inner.count cannot be number",
		`{"inner":[]}`:       "inner cannot be array",
		`{"many":{"a":1}}`:   "many cannot be object",
		`{"at":"yesterday"}`: "cannot be read",
		strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1):           "deeper than 16",
		strings.Repeat(`{"a":`, MaxDepth+1) + "1" + strings.Repeat("}", MaxDepth+1): "deeper than 16",
		"[" + strings.Repeat("1,", MaxValues) + "1]":                                "more than 4000 values",
		strings.Repeat("[", 1_000_000):                                              "deeper than 16",
	} {
		var d document
		err := Unmarshal([]byte(text), &d)
		shown := text[:min(len(text), 60)]
		if assert.Error(t, err, shown) {
			assert.Contains(t, err.Error(), reason, shown)
			assert.NotContains(t, err.Error(), "document", "no name of Go's: %s", shown)
		}
	}
}

// A whole number is one however it is written, and nothing else is.
func TestWholeNumbersAreRead(t *testing.T) {
	for text, want := range map[string]int64{
		"44.0": 44, "4.4e1": 44, "44E0": 44, "440e-1": 44, "-44.000": -44, "0.0": 0, "-0.0": 0, "0e99": 0, "4.4E+01": 44,
		"9223372036854775807.0": 9223372036854775807, "1e18": 1e18, "44": 44,
	} {
		d := document{Inner: inner{7}}
		require.NoError(t, Unmarshal([]byte(`{"inner":{"count":`+text+`},"name":"44.0 \"4.4e1"}`), &d), text)
		assert.Equal(t, document{Inner: inner{want}, Name: `44.0 "4.4e1`}, d, "no text is changed")
	}
	for _, text := range []string{
		"44.5", "4.45e1", "1e-1", "1e19", "1e99", "1e400", "1e-400", "1e1000000000", "-1e1000000000", "9223372036854775808.0", "0.99999999999999999999",
		"44." + strings.Repeat("0", 60_000), strings.Repeat("4", 60_000) + ".0", "1e" + strings.Repeat("0", 60_000) + "1",
	} {
		var d document
		require.Error(t, Unmarshal([]byte(`{"inner":{"count":`+text+`}}`), &d), "%.40s", text)
	}
}

// What is read apart may be wrong in itself, and no place else.
func TestElementsAreReadApart(t *testing.T) {
	type apart struct {
		Raw  []json.RawMessage `json:"raw"`
		Many [][]int           `json:"many"`
	}
	for text, reason := range map[string]string{
		`{"raw":[null,{"a":1,"a":null},[null,{"b":[null]}],1]}`: "",
		`{"raw":[1],"many":[null]}`:                             "many[0] is null",
		`{"raw":null}`:                                          "raw is null",
		`{"raw":[1],"raw":[1]}`:                                 "raw is there twice",
		`{"many":[[1]],"x":{"raw":[null]}}`:                     "x.raw[0] is null",
		`[null]`:                                                "[0] is null",
		`{"raw":[1` + strings.Repeat(",1", MaxValues) + `]}`:    "more than 4000 values",
		`{"raw":[` + strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth) + `]}`: "deeper than 16",
		`{"raw":[{]}`: "is no JSON",
	} {
		var a apart
		err := UnmarshalApart([]byte(text), &a, "raw")
		if reason == "" {
			require.NoError(t, err)
			assert.Len(t, a.Raw, 4)
			continue
		}
		require.ErrorContains(t, err, reason, "%.60s", text)
		require.Error(t, Unmarshal([]byte(text), &a))
	}
}

// Where a value stands is not written out for each: a long name that many values are below
// takes the room of one.
func TestLongNamesTakeTheirRoomOnce(t *testing.T) {
	const values = MaxValues - 3
	name := strings.Repeat("x", 64<<10)
	fields := make([]string, values)
	for i := range fields {
		fields[i] = fmt.Sprintf(`"f%d":1`, i)
	}
	for what, below := range map[string]string{
		"elements": "[1" + strings.Repeat(",1", values-1) + "]", "fields": "{" + strings.Join(fields, ",") + "}",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var d document
		require.NoError(t, Unmarshal([]byte(`{"raw":{"`+name+`":`+below+`}}`), &d), what)
		runtime.ReadMemStats(&after)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20), what)
	}
}

// What is read means the same to encoding/json, and to a reader that looks at nothing but
// the tree.
func FuzzUnmarshal(f *testing.F) {
	for _, text := range []string{`{"name":"x","inner":{"count":7},"tags":{"a":"1"}}`, `{"name":"x","Name":"y"}`, `[[[`, `{"raw":1e400}`, "\xef\xbb\xbf{}", `{"a":1,"a":2}`, `{"inner":{"count":4.4e1},"name":"\\\"1.0"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var d, again document
		if Unmarshal(data, &d) != nil {
			return
		}
		require.True(t, json.Valid(data))
		dec := json.NewDecoder(strings.NewReader(string(wholeNumbers(data))))
		dec.DisallowUnknownFields()
		require.NoError(t, dec.Decode(&again))
		require.Equal(t, d, again)
		var tree map[string]any
		require.NoError(t, json.Unmarshal(data, &tree))
		if name, ok := tree["name"]; ok {
			require.Equal(t, name, d.Name)
		}
	})
}
