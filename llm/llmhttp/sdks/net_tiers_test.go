package sdks

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// declarationsOf are those of the named files of a package of an SDK, as its source has them.
func declarationsOf(t *testing.T, path string, files ...string) (all []ast.Decl) {
	t.Helper()
	here, err := os.Getwd()
	require.NoError(t, err)
	p, err := build.Import(path, here, build.FindOnly)
	require.NoError(t, err)
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		all = append(all, f.Decls...)
	}
	return all
}

// wordsOf are the values of the constants of types with such a name.
func wordsOf(decls []ast.Decl, is func(typeName string) bool) map[string]bool {
	all := map[string]bool{}
	for _, d := range decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, s := range group.Specs {
			value := s.(*ast.ValueSpec)
			name, ok := value.Type.(*ast.Ident)
			if !ok || !is(name.Name) {
				continue
			}
			for _, v := range value.Values {
				if word, ok := v.(*ast.BasicLit); ok {
					text, _ := strconv.Unquote(word.Value)
					all[text] = true
				}
			}
		}
	}
	return all
}

// tiers are where the SDKs name service tiers, and speeds, and how a call asks for one and is told.
var tiers = []struct {
	name, path, pkg  string
	files            []string
	suffix           string
	ask, answer      string
	standard, unsold string // words that are the standard tier, and those with no price that is known
}{
	{
		"chat", chatPath, "github.com/openai/openai-go/v3",
		[]string{"chatcompletion.go"},
		"ServiceTier",
		`{"model":"m","max_tokens":9000,"service_tier":"%"}`, `{"service_tier":"%","usage":{"prompt_tokens":1000,"completion_tokens":1000}}`, "auto default", "scale",
	},
	{
		"Responses", respondPath, "github.com/openai/openai-go/v3/responses",
		[]string{"response.go"},
		"ServiceTier",
		`{"model":"m","max_output_tokens":9000,"service_tier":"%"}`, `{"service_tier":"%","usage":{"input_tokens":1000,"output_tokens":1000}}`, "auto default", "scale ultrafast",
	},
	{
		"Responses beta", respondPath, "github.com/openai/openai-go/v3",
		[]string{"betaresponse.go"},
		"ServiceTier",
		`{"model":"m","max_output_tokens":9000,"service_tier":"%"}`, `{"service_tier":"%","usage":{"input_tokens":1000,"output_tokens":1000}}`, "auto default", "scale ultrafast",
	},
	{
		"Claude", claudePath, "github.com/anthropics/anthropic-sdk-go",
		[]string{"message.go", "betamessage.go"},
		"ServiceTier",
		`{"model":"m","max_tokens":9000,"service_tier":"%"}`, `{"usage":{"service_tier":"%","input_tokens":1000,"output_tokens":1000}}`, "auto standard standard_only", "batch",
	},
	{
		"Claude's speeds", claudePath, "github.com/anthropics/anthropic-sdk-go",
		[]string{"message.go", "betamessage.go"},
		"Speed",
		`{"model":"m","max_tokens":9000,"speed":"%"}`, `{"usage":{"speed":"%","input_tokens":1000,"output_tokens":1000}}`, "standard", "fast",
	},
	{
		"Gemini", geminiPath, "google.golang.org/genai",
		[]string{"types.go"},
		"ServiceTier",
		`{"generationConfig":{"maxOutputTokens":9000},"serviceTier":"%"}`, `{"usageMetadata":{"serviceTier":"%","promptTokenCount":1000,"candidatesTokenCount":1000}}`, "unspecified standard", "",
	},
	{
		"Vertex", geminiPath, "google.golang.org/genai",
		[]string{"types.go"},
		"TrafficType",
		"", `{"usageMetadata":{"trafficType":"%","promptTokenCount":1000,"candidatesTokenCount":1000}}`, "TRAFFIC_TYPE_UNSPECIFIED ON_DEMAND PROVISIONED_THROUGHPUT", "ON_DEMAND_OFFPEAK",
	},
	{
		"Converse", bedrockPath, "github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types",
		[]string{"enums.go"},
		"ServiceTierType",
		`{"inferenceConfig":{"maxTokens":9000},"serviceTier":{"type":"%"}}`, `{"serviceTier":{"type":"%"},"usage":{"inputTokens":1000,"outputTokens":1000}}`, "default", "reserved",
	},
	{
		"Converse's latencies", bedrockPath, "github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types",
		[]string{"enums.go"},
		"PerformanceConfigLatency",
		`{"inferenceConfig":{"maxTokens":9000},"performanceConfig":{"latency":"%"}}`, `{"performanceConfig":{"latency":"%"},"usage":{"inputTokens":1000,"outputTokens":1000}}`, "standard", "optimized",
	},
}

// sold are the tiers that have a price, and how many times that of the standard one.
var sold = map[string]int64{"priority": 2, "fast": 2, "flex": 3, "ON_DEMAND_PRIORITY": 2, "ON_DEMAND_FLEX": 3}

// TestNetOfTiers: each tier that an SDK has a word for is priced as it is asked for and as it is told, or
// refused, and charged at the dearest price if it is told.
func TestNetOfTiers(t *testing.T) {
	for _, c := range tiers {
		t.Run(c.name, func(t *testing.T) {
			all := wordsOf(declarationsOf(t, c.pkg, c.files...), func(name string) bool { return strings.HasSuffix(name, c.suffix) })
			assert.NotEmpty(t, all)
			w := newTill(t)
			for word := range all {
				times := sold[word]
				if slices.Contains(strings.Fields(c.standard), word) {
					times = 1
				}
				if slices.Contains(strings.Fields(c.unsold), word) {
					times = 0
				} else {
					assert.Positive(t, times, "%s is a tier that nobody has looked at", word)
				}
				if c.ask != "" {
					s, ok := w.call(c.path, strings.Replace(c.ask, "%", word, 1), strings.Replace(c.answer, "%", "", 1))
					assert.Equal(t, times > 0, ok, word)
					assert.Equal(t, times*6_000, s.CostMicros, word)
				}
				if times == 0 {
					times = 4 // the dearest
				}
				s, ok := w.call(c.path, askAll, strings.Replace(c.answer, "%", word, 1))
				assert.True(t, ok)
				assert.Equal(t, times*6_000, s.CostMicros, "%s is told", word)
			}
		})
	}
}
