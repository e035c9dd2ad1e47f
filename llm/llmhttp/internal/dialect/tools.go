package dialect

import "strings"

// Fee is the cost of a tool of a request beside tokens. The zero value is free.
type Fee struct {
	// Tool is its name in prices; empty if it is known to cost only the
	// tokens of the request and of the reply.
	Tool string
	// Most is the most uses in one call, for every request; 0 without such a bound.
	Most int64
}

// The tools of each provider, by type without its date, or by key. An unlisted tool has an unknown
// price: it keeps its own name, so that a limit on money refuses it. Those with
// the zero Fee are run by the caller, and their results come in the next request.

// openAITools are from openai-go v3.96.0 (2026-11), responses.ToolUnionParam and the items of a
// response; fees from OpenAI's page of prices, "Built-in tools" (2026-11). Not free, and so not here:
// file_search, code_interpreter, image_generation, shell (a container), tool_search and
// programmatic_tool_calling.
var openAITools = map[string]Fee{
	"function": {}, "custom": {}, "custom_tool": {}, "namespace": {}, // of functions
	"computer": {}, "computer_use_preview": {}, "local_shell": {}, "apply_patch": {},
	"web_search": {Tool: searches}, "web_search_preview": {Tool: searches},
}

// anthropicTools are from anthropic-sdk-go v1.84.0 (2026-10), ToolUnionParam and BetaToolUnionParam;
// fees from Anthropic's pages of the tools (2026-11). Not free: code_execution (a container),
// browser_toolset, tool_search_tool and advisor (another model).
var anthropicTools = map[string]Fee{
	"": {}, "custom": {}, "bash": {}, "text_editor": {}, "computer": {}, "computer_toolset": {}, "memory": {},
	"web_search": {Tool: searches}, "web_fetch": {Tool: "web_fetch"}, "mcp_toolset": {Tool: remote},
}

// geminiTools are from genai v1.77.0 (2026-10), Tool; fees from Google's pages of prices (2026-11). A
// call reads 20 URLs at most ("URL context"). Not free: googleMaps, fileSearch, retrieval,
// parallelAiSearch, exaAiSearch and codeExecution, which have unbounded results.
var geminiTools = map[string]Fee{
	"functionDeclarations": {}, "function_declarations": {}, "computerUse": {}, "computer_use": {},
	"googleSearch": {Tool: searches}, "google_search": {Tool: searches},
	"googleSearchRetrieval": {Tool: searches}, "google_search_retrieval": {Tool: searches},
	"enterpriseWebSearch": {Tool: searchesOfEnterprises}, "enterprise_web_search": {Tool: searchesOfEnterprises},
	"urlContext": {"url_context", 20}, "url_context": {"url_context", 20},
	"mcpServers": {Tool: remote}, "mcp_servers": {Tool: remote},
}

// bedrockTools are from bedrockruntime v1.63.11 (2026-11), types.Tool. Not free: systemTool.
var bedrockTools = mergeFees(anthropicTools, map[string]Fee{"toolSpec": {}, "cachePoint": {}})

// The names that prices have.
const (
	searches              = "web_search"
	searchesOfEnterprises = "enterprise_web_search"
	remote                = "mcp" // tools of servers that the provider calls
	storedPrompt          = "stored_prompt"
	guardrail             = "guardrail"
	fallback              = "fallback" // an answer of another model than the called one
	agents                = "multi_agent"
	unknown               = "unknown" // a tool without a plain name
)

// mergeFees returns one new table with the entries of all; later tables win.
func mergeFees(tables ...map[string]Fee) map[string]Fee {
	all := map[string]Fee{}
	for _, table := range tables {
		for name, fee := range table {
			all[name] = fee
		}
	}
	return all
}

// toolFee returns the fee of a tool, by its type or key, from a table of known tools. An unknown tool gets its
// own plain name as its name in prices, so that it has no price.
func toolFee(table map[string]Fee, kind string) Fee {
	if fee, ok := table[withoutDate(kind)]; ok {
		return fee
	}
	return Fee{Tool: plainName(withoutDate(kind))}
}

// withoutDate returns a tool's type without the date of its version, such as _20250305. A type without a date
// is unchanged.
func withoutDate(kind string) string {
	name := strings.TrimRight(kind, "0123456789_")
	if date := kind[len(name):]; strings.HasPrefix(date, "_") && len(strings.ReplaceAll(date, "_", "")) == len("20250305") {
		return name
	}
	return kind
}

// plainName returns a name from a request if a message may repeat it: at most 64 letters, digits, "_", "-" and
// ".". Any other name becomes "unknown".
func plainName(name string) string {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_-.", r)
	}
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, odd) {
		return unknown
	}
	return name
}

// tool is the tool of a request that is being read.
type tool struct {
	kind string
	uses int64
}

// tools are the tools of a request that are not free, by the names of prices.
type tools struct {
	uses      map[string]int64
	unbounded map[string]bool
}

// addTool adds the uses of a tool with a fee to t. If uses is 0, it takes the fee's bound, and without one the
// tool becomes unbounded for the whole request. A free tool changes nothing.
func (t *tools) addTool(fee Fee, uses int64) {
	if fee.Tool == "" {
		return
	}
	if t.uses == nil {
		t.uses, t.unbounded = map[string]int64{}, map[string]bool{}
	}
	if uses == 0 {
		uses = fee.Most
	}
	t.unbounded[fee.Tool] = t.unbounded[fee.Tool] || uses == 0
	t.uses[fee.Tool] += min(uses, mostUses)
}

// setBounds sets the uses of each unbounded tool to all, the request's bound on all tool uses. With an all of 0
// they stay unbounded.
func (t *tools) setBounds(all int64) {
	for name, unbounded := range t.unbounded {
		if unbounded {
			t.uses[name] = min(all, mostUses)
		}
	}
}

// mostUses exceeds the uses of one tool in a call.
const mostUses = 1 << 20

// MostResults returns the most results that the tools of a request can bring, given the most uses of each. An
// unbounded tool counts as one.
func MostResults(tools map[string]int64) (n int64) {
	for _, uses := range tools {
		n = min(n+max(1, uses), mostUses)
	}
	return n
}
