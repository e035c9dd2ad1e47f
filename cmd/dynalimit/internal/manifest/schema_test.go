package manifest

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/dynalimit/dynalimit/internal/yamlfile"
)

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	schema, err := compileOnce()
	require.NoError(t, err)
	return schema
}

var compileOnce = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("manifest.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("manifest.json")
})

// plainValue is a file as an editor sees it: values without their meaning.
func plainValue(t *testing.T, text string) any {
	t.Helper()
	var value any
	yamlfile.DecodeFile("limits.yaml", []byte(text), yamlfile.Form{
		Empty: "write something", Special: func(r *yamlfile.Reader, _ reflect.Value, n *yaml.Node, _ string) reflect.Value {
			require.Empty(t, r.Problems, text)
			value = plain(r, n)
			return reflect.Value{}
		},
	}, &value)
	require.NotNil(t, value, text)
	return value
}

func plain(r *yamlfile.Reader, n *yaml.Node) any {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yaml.SequenceNode:
		items := []any{}
		for _, item := range n.Content {
			items = append(items, plain(r, item))
		}
		return items
	case yaml.MappingNode:
		values := map[string]any{}
		for _, e := range r.Entries(n, "") {
			values[e.Key.Value] = plain(r, e.Value)
		}
		return values
	}
	if number := !yamlfile.IsQuoted(n) && jsonNumber.MatchString(n.Value); number && !shortExponent.MatchString(n.Value) {
		return n.Value // numbers that are longer take the library minutes
	}
	return metadataScalar(r, n, "")
}

// manifestsIn are the manifests that a page shows.
func manifestsIn(text string) (blocks []string) {
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

func TestSchemaAndParserAcceptWhatIsDocumented(t *testing.T) {
	schema := compiled(t)
	texts := []string{whole, many(3), "name: x\n", "version: 1\n"}
	pages, err := filepath.Glob("../../../../docs/*.md")
	require.NoError(t, err)
	for _, page := range append(pages, "../../../../README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		if filepath.Base(page) == "limits-as-code.md" || strings.Contains(string(text), "dynalimit manifest") {
			texts = append(texts, manifestsIn(string(text))...)
		}
	}
	examples, err := filepath.Glob("../../../../examples/*/*.yaml")
	require.NoError(t, err)
	for _, file := range examples {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		texts = append(texts, string(text))
	}
	for _, text := range texts {
		_, err := Parse("limits.yaml", []byte(strings.ReplaceAll(text, "0042", "'0042'")))
		require.NoError(t, err, text)
		require.NoError(t, schema.Validate(plainValue(t, text)), text)
	}
}

func TestSchemaAndParserRefuseTheSame(t *testing.T) {
	schema := compiled(t)
	text := strings.ReplaceAll(whole, "0042", "'0042'")
	for _, change := range [][2]string{
		{"version: 1", "version: 3"},
		{"name: gateway", "name: ''"},
		{"name: gateway", "name: [gateway]"},
		{"name: gateway", "nme: gateway"},
		{"name: gateway", "namespace: a b"},
		{"{rpm: 60}", "{}"},
		{"{rpm: 60}", "{rpm: 0}"},
		{"{rpm: 60}", "{rpm: -1}"},
		{"{rpm: 60}", "{rpm: 1.5}"},
		{"{rpm: 60}", "{rpm: 1000000000001}"},
		{"{rpm: 60}", "{rpm: 10K}"},
		{"{rpm: 60}", "{rpm: 1__0}"},
		{"{rpm: 60}", "{rpm: '010'}"},
		{"{rpm: 60}", "{rpm: true}"},
		{"{rpm: 60}", "{rpm: null}"},
		{"{rpm: 60}", "{rpm: [60]}"},
		{"{rpm: 60}", "{rpm: {}}"},
		{"{rpm: 60}", "{rpm: {burst: 10}}"},
		{"{rpm: 60}", "{rpm: {capacity: 10, brst: 10}}"},
		{"{rpm: 60}", "{2rpm: 60}"},
		{"{rpm: 60}", "{a b: 60}"},
		{"{rpm: 60}", "[60]"},
		{"{rpm: 60}", "60"},
		{"{rpm: 60}", "{" + strings.Repeat("a: 1, ", 1) + manyLimits(20) + "}"},
		{"on_unavailable: local", "on_unavailable: maybe"},
		{"on_unavailable: local", "unlimited: true"},
		{"on_unavailable: local", "blocked: 1"},
		{"1h30m", "60"},
		{"1h30m", "1.5h"},
		{"1h30m", "1w"},
		{"1h30m", "''"},
		{"refill: 5k", "refill: 5k, refill_amount: 5k"},
		{"window: day", "window: year"},
		{"window: day", "window: ''"},
		{"window: day", "window: hour"}, // of a zone
		{"window: day, ", ""},
		{"window: day", "window: day, period: 1d"},
		{"window: week", "window: week, burst: 7"},
		{"window: week", "window: week, refill: 7"},
		{"window: week", "window: week, refill_amount: 7"},
		{"window: week", "window: week, refill_period: 7"},
		{"zone: America/Los_Angeles", "zone: ''"},
		{"zone: America/Los_Angeles", "zone: [UTC]"},
		{`"$50"`, `"$0.0000001"`},
		{`"$50"`, `"$-50"`},
		{`"$50"`, `"$"`},
		{"unit: usd, ", ""}, // of dollars
		{"unit: usd", "unit: eur"},
		{"unit: usd, window: month", "window: month"}, // of per_model
		{"per_model: true", "per_model: 1"},
		{"window: month, ", ""},
		{"{blocked: true}", "{blocked: false}"},
		{"{blocked: true}", "{}"},
		{"{blocked: true}", "{unlimited: false}"},
		{"unlimited: counted", "unlimited: all"},
		{"unlimited: counted", "unlimited: 'true'"},
		{"unlimited: counted", "limits: {rpm: 1}\n    unlimited: counted"},
		{"{blocked: true}", "{blocked: true, admit: true}"},
		{"{blocked: true}", "{blocked: true, blocked_except: true}"},
		{"blocked_except: true", "blocked_except: true, admit: true"},
		{"blocked_except: true", "blocked_except: false"},
		{"groups: [openai, all]", "groups: []"},
		{"groups: [openai, all]", "groups: all"},
		{"groups: [openai, all]", "groups: [_default_]"},
		{"groups: [openai, all]", "groups: ['a b']"},
		{"groups: [openai, all]", "groups: [[all]]"},
		{"groups: [openai, all]", "groups: [a, b, c, d, e, f, g, h, i]"},
		{"on_unavailable: local", "groups: [all]"},
		{"{limits: {rpm: 10}}", "{groups: [all]}"},
		{"{blocked: true, limits: {rpm: 5}}", "{groups: [all]}"},
		{"  legacy: {blocked", "  _default_: {blocked"},
		{"  legacy: {blocked", "  'a b': {blocked"},
		{"  trial:", "  'tri/al':"},
		{"plan: pro", "plan: -pro"},
		{"plan: pro", "plan: [pro]"},
		{"plan: pro", "planet: pro"},
		{"    parent: team-a\n", ""},
		{"cascade: true", "cascade: 1"},
		{"refill_period: 90", "refill_period: 0"},
		{"refill_period: 90", "refill_period: 1m"},
		{"refill_period: 90", "refill_period: 90, period: 1m"},
		{"key-3: {}", "key/3: {}"},
		{"key-3: {}", "key-3: 1"},
	} {
		changed := strings.Replace(text, change[0], change[1], 1)
		require.NotEqual(t, text, changed, change)
		_, err := Parse("limits.yaml", []byte(changed))
		assert.Error(t, err, "the parser: %q", change)
		assert.Error(t, schema.Validate(plainValue(t, changed)), "the schema: %q", change)
	}
}

func manyLimits(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat("l", i+1) + ": 1, ")
	}
	return b.String()
}

// What the parser accepts the schema accepts, whatever the text.
func FuzzSchema(f *testing.F) {
	f.Add(whole)
	schema := compiled(&testing.T{})
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := Parse("limits.yaml", []byte(text)); err != nil {
			return
		}
		require.NoError(t, schema.Validate(plainValue(t, text)), text)
	})
}
