package sdks

import (
	"cmp"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genai"
)

// TestNetOfGemini: each field of a tool and of a part.
func TestNetOfGemini(t *testing.T) {
	for _, c := range []struct {
		in   string
		of   reflect.Type
		free map[string]string
	}{
		{`{"generationConfig":{"maxOutputTokens":1},"tools":[%]}`, reflect.TypeFor[genai.Tool](), map[string]string{
			"FunctionDeclarations": "run by the caller", "ComputerUse": "run by the caller (Google's page of prices, 2026-11)",
		}},
		{`{"generationConfig":{"maxOutputTokens":1},"contents":[{"parts":[%]}]}`, reflect.TypeFor[genai.Part](), map[string]string{
			"Text": "its bytes are held", "Thought": "says what a text is", "ThoughtSignature": "its bytes are held", "PartMetadata": "is not shown to the model",
			"MediaResolution": "of a part that is held as Options.Unmetered", "VideoMetadata": "of a part that is held as Options.Unmetered", "MediaProcessing": "of a part that is held as Options.Unmetered",
			"CodeExecutionResult": "text of an earlier call", "ExecutableCode": "text of an earlier call", "ToolCall": "text of an earlier call", "ToolResponse": "text of an earlier call",
			"FunctionCall": "text, whose bytes are held", "AudioTranscription": "text, whose bytes are held", "SpeechMetadata": "says how a text is spoken; spoken replies are refused without a price",
		}},
	} {
		w, free := newTill(t), []string(nil)
		for f := range c.of.Fields() {
			inner := variantsOf(f.Type, deepest)
			if f.Type.Kind() == reflect.Bool {
				inner[0].value.SetBool(true)
			}
			one := reflect.New(c.of)
			one.Elem().FieldByIndex(f.Index).Set(inner[0].value)
			if !w.costs(geminiPath, strings.Replace(c.in, "%", variant{f.Name, one}.json(t), 1)) {
				free = append(free, f.Name)
			}
		}
		assertExcused(t, c.free, free)
	}
}

// TestNetOfConverse: each member of the unions that a call of Converse sends. They are interfaces, which the
// source alone lists.
func TestNetOfConverse(t *testing.T) {
	const source = `{"source":{"bytes":"AAAA"}}`
	found := map[string][]string{}
	for _, d := range declarationsOf(t, "github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types", "types.go") {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && strings.HasPrefix(f.Name.Name, "is") {
			union := strings.TrimPrefix(f.Name.Name, "is")
			of, _ := f.Recv.List[0].Type.(*ast.StarExpr)
			if member, ok := strings.CutPrefix(of.X.(*ast.Ident).Name, union+"Member"); ok {
				found[union] = append(found[union], strings.ToLower(member[:1])+member[1:])
			}
		}
	}
	const text, before = "text, whose bytes are held", "refers to a tool of the request"
	for union, c := range map[string]struct {
		in   string
		ask  map[string]string // what has tokens that its bytes do not show; others are sent empty
		free map[string]string
	}{
		"Tool":               {`"toolConfig":{"tools":[%]}`, nil, map[string]string{"toolSpec": "run by the caller", "cachePoint": "its writes are held and charged"}},
		"SystemContentBlock": {`"system":[%]`, nil, map[string]string{"text": text, "cachePoint": "its writes are held and charged", "guardContent": "text for a guardrail, which guardrailConfig asks for"}},
		"ContentBlock": {
			`"messages":[{"role":"user","content":[%]}]`,
			map[string]string{"image": source, "document": source, "video": source, "audio": source},
			map[string]string{
				"text": text, "cachePoint": "its writes are held and charged", "guardContent": "text for a guardrail, which guardrailConfig asks for", "citationsContent": text, "reasoningContent": text,
				"searchResult": text, "toolUse": text, "toolResult": "its blocks are read one by one", "toolAddition": before, "toolRemoval": before,
			},
		},
		"ToolResultContentBlock": {
			`"messages":[{"role":"user","content":[{"toolResult":{"content":[%]}}]}]`,
			map[string]string{"image": source, "document": source, "video": source},
			map[string]string{"text": text, "json": text, "searchResult": text},
		},
		"DocumentSource": {
			`"messages":[{"role":"user","content":[{"document":{"source":%}}]}]`, map[string]string{"bytes": `"AAAA"`, "s3Location": `{"uri":"s3://x"}`}, map[string]string{"text": text, "content": text},
		},
		"ImageSource": {`"messages":[{"role":"user","content":[{"image":{"source":%}}]}]`, map[string]string{"bytes": `"AAAA"`, "s3Location": `{"uri":"s3://x"}`}, nil},
		"VideoSource": {`"messages":[{"role":"user","content":[{"video":{"source":%}}]}]`, map[string]string{"bytes": `"AAAA"`, "s3Location": `{"uri":"s3://x"}`}, nil},
		"AudioSource": {`"messages":[{"role":"user","content":[{"audio":{"source":%}}]}]`, map[string]string{"bytes": `"AAAA"`, "s3Location": `{"uri":"s3://x"}`}, nil},
	} {
		w, free := newTill(t), []string(nil)
		assert.NotEmpty(t, found[union], union)
		for _, member := range found[union] {
			ask := c.ask[member]
			if ask == "" {
				ask = "{}"
			}
			if !w.costs(bedrockPath, `{"inferenceConfig":{"maxTokens":1},`+strings.Replace(c.in, "%", `{"`+member+`":`+ask+`}`, 1)+`}`) {
				free = append(free, member)
			}
		}
		assertExcused(t, c.free, free)
	}
}

// typesOf are those of the members of a union of an answer, as its As methods return them.
func typesOf(union reflect.Type) (all []string) {
	for m := range union.Methods() {
		if m.Type.NumOut() != 1 || m.Type.Out(0).Kind() != reflect.Struct {
			continue
		}
		if f, ok := m.Type.Out(0).FieldByName("Type"); ok {
			all = append(all, cmp.Or(f.Tag.Get("default"), strings.ToLower(capital.ReplaceAllString(strings.TrimPrefix(m.Name, "As"), "${1}_$2"))))
		}
	}
	return all
}

// TestNetOfReplies: each item of a reply that is a use of a provider's tool is charged.
func TestNetOfReplies(t *testing.T) {
	const text, own, result = "text of the reply, in its tokens", "a use of the caller's own tool", "the result of a use that is counted"
	openAI := map[string]string{
		"message": text, "reasoning": text, "compaction": text, "program": text, "program_output": text,
		"function_call": own, "custom_tool_call": own, "computer_call": own, "local_shell_call": own, "apply_patch_call": own,
		"function_call_output": own, "custom_tool_call_output": own, "computer_call_output": own, "local_shell_call_output": own, "apply_patch_call_output": own,
		"shell_call_output": result, "tool_search_output": result, "additional_tools": result,
		"mcp_list_tools": "no call of a tool", "mcp_approval_request": "no call of a tool", "mcp_approval_response": "no call of a tool",
	}
	claude := map[string]string{
		"text": text, "thinking": text, "redacted_thinking": text, "tool_use": own, "web_search_tool_result": result, "web_fetch_tool_result": result, "tool_search_tool_result": result,
		"code_execution_tool_result": result, "bash_code_execution_tool_result": result, "text_editor_code_execution_tool_result": result,
		"container_upload": "a file of the code execution, whose use is counted",
	}
	beta := maps.Clone(claude)
	for _, kind := range []string{"advisor_tool_result", "mcp_tool_result", "mcp_tool_listing"} {
		beta[kind] = result
	}
	beta["compaction"], beta["fallback"] = "its tokens are in usage.iterations", "its tokens are in usage.iterations"
	for _, c := range []struct {
		path, answer string
		of           reflect.Type
		free         map[string]string
	}{
		{respondPath, `{"output":[%],"usage":{"input_tokens":1000,"output_tokens":1000}}`, reflect.TypeFor[responses.ResponseOutputItemUnion](), openAI},
		{claudePath, `{"content":[%],"usage":{"input_tokens":1000,"output_tokens":1000}}`, reflect.TypeFor[anthropic.ContentBlockUnion](), claude},
		{claudePath, `{"content":[%],"usage":{"input_tokens":1000,"output_tokens":1000}}`, reflect.TypeFor[anthropic.BetaContentBlockUnion](), beta},
	} {
		w, free := newTill(t), []string(nil)
		none, _ := w.call(c.path, askAll, strings.Replace(c.answer, "%", "", 1))
		for _, kind := range typesOf(c.of) {
			one, ok := w.call(c.path, askAll, strings.Replace(c.answer, "%", `{"type":"`+kind+`","name":"web_search"}`, 1))
			assert.True(t, ok)
			if one.CostMicros == none.CostMicros {
				free = append(free, kind)
			}
		}
		assertExcused(t, c.free, free)
	}
}

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

// asks are requests in whose place of a mark a variant stands.
const (
	inTools     = `{"model":"m","max_tokens":1,"max_output_tokens":1,"messages":[],"input":"x","tools":[%]}`
	inItems     = `{"model":"m","max_output_tokens":1,"input":[%]}`
	inMessages  = `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[%]}]}`
	chatPath    = "/v1/chat/completions"
	respondPath = "/v1/responses"
	claudePath  = "/v1/messages"
	geminiPath  = "/v1beta/models/m:generateContent"
	bedrockPath = "/model/m/converse"
)

// unions are those of what is sent, as structs with a field of each member.
var unions = []struct {
	name, path, in string
	of             reflect.Type
}{
	{"chat tool", chatPath, inTools, reflect.TypeFor[openai.ChatCompletionToolUnionParam]()},
	{"chat part", chatPath, inMessages, reflect.TypeFor[openai.ChatCompletionContentPartUnionParam]()},
	{"Responses tool", respondPath, inTools, reflect.TypeFor[responses.ToolUnionParam]()},
	{"Responses item", respondPath, inItems, reflect.TypeFor[responses.ResponseInputItemUnionParam]()},
	{"Responses beta tool", respondPath, inTools, reflect.TypeFor[openai.BetaToolUnionParam]()},
	{"Responses beta item", respondPath, inItems, reflect.TypeFor[openai.BetaResponseInputItemUnionParam]()},
	{"Claude tool", claudePath, inTools, reflect.TypeFor[anthropic.ToolUnionParam]()},
	{"Claude block", claudePath, inMessages, reflect.TypeFor[anthropic.ContentBlockParamUnion]()},
	{"Claude beta tool", claudePath, inTools, reflect.TypeFor[anthropic.BetaToolUnionParam]()},
	{"Claude beta block", claudePath, inMessages, reflect.TypeFor[anthropic.BetaContentBlockParamUnion]()},
}

// harmless are the members that change no price, with the reason; by the path of the request.
var harmless = map[string]map[string]string{
	chatPath: {
		"run by the caller (OpenAI's page of prices, Built-in tools, 2026-11)": "OfFunction OfCustom",
		"text, whose bytes are held": "OfText OfGrammar",
	},
	respondPath: {
		"run by the caller (OpenAI's page of prices, Built-in tools, 2026-11)": "OfFunction OfCustom OfNamespace OfComputer OfComputerUsePreview OfLocalShell OfApplyPatch",
		"text, whose bytes are held": "OfText OfGrammar OfMessage OfInputItemContentList OfInputMessage OfOutputMessage OfInputText OfOutputText OfString OfRefusal " +
			"OfURLCitation OfJSONSchema OfConfigurationUpdate OfReasoning OfCompaction OfEncryptedContent OfProgram OfProgramOutput OfAgentMessage OfLogs",
		"tools that are read one by one": "OfAdditionalTools OfToolSearchOutput OfMcpListTools",
		"what a tool did before: its bytes are held, and its fee was paid by the call that used it (OpenAI's page of prices, 2026-11)": "OfWebSearchCall OfSearch OfOpenPage OfFind OfFindInPage " +
			"OfToolSearchCall OfCodeInterpreterCall OfMcpCall OfMcpProtocolError OfMcpToolExecutionError OfHTTPError OfMcpApprovalRequest OfMcpApprovalResponse OfMultiAgentCall OfMultiAgentCallOutput",
		"a call that the caller's machine answers, and the answer": "OfFunctionCall OfFunctionCallOutput OfResponseFunctionCallOutputItemArray OfBetaResponseFunctionCallOutputItemArray OfCustomToolCall " +
			"OfCustomToolCallOutput OfOutputContentList OfComputerCall OfClick OfDoubleClick OfDrag OfKeypress OfMove OfScreenshot OfScroll OfType OfWait OfLocalShellCall OfLocalShellCallOutput OfShellCall OfShellCallOutput " +
			"OfApplyPatchCall OfApplyPatchCallOutput OfCreateFile OfDeleteFile OfUpdateFile OfExit OfTimeout OfDirect OfLocal OfContainerReference",
		"runs the called model, whose reply is held": "OfCompactionTrigger",
	},
	claudePath: {
		"run by the caller (Anthropic's page of prices, Tool use pricing, 2026-11)": "OfTool OfBashTool20241022 OfBashTool20250124 OfTextEditor20241022 OfTextEditor20250124 OfTextEditor20250429 OfTextEditor20250728 " +
			"OfComputerUseTool20241022 OfComputerUseTool20250124 OfComputerUseTool20251124 OfComputerToolset20260801 OfMemoryTool20250818",
		"text, whose bytes are held": "OfText OfString OfThinking OfRedactedThinking OfSearchResult OfCompaction OfFallback OfDocument OfContent OfContentBlockSourceContent OfBetaContentBlockSourceContent " +
			"OfCharLocation OfPageLocation OfContentBlockLocation OfWebSearchResultLocation OfSearchResultLocation",
		"a name of a tool that the request has": "OfToolReference OfMCPToolReference OfMCPToolsetReference OfMCPToolListing OfToolRemoval",
		"tools that are read one by one":        "OfToolAddition OfToolDefinition",
		"what a tool did before: its bytes are held, and its fee was paid by the call that used it (Anthropic's page of prices, 2026-11)": "OfServerToolUse OfWebSearchToolResult OfWebFetchToolResult " +
			"OfResultBlock OfWebSearchToolResultBlockItem OfError OfRequestWebSearchToolResultError OfRequestWebFetchResultBlock OfRequestWebFetchToolResultError " +
			"OfCodeExecutionToolResult OfBashCodeExecutionToolResult OfTextEditorCodeExecutionToolResult OfToolSearchToolResult OfAdvisorToolResult OfMCPToolUse OfMCPToolResult OfBetaMCPToolResultBlockContent " +
			"OfRequestAdvisorRedactedResultBlock OfRequestAdvisorResultBlock OfRequestAdvisorToolResultError OfRequestBashCodeExecutionToolResultError OfRequestCodeExecutionToolResultError " +
			"OfRequestTextEditorCodeExecutionCreateResultBlock OfRequestTextEditorCodeExecutionStrReplaceResultBlock OfRequestTextEditorCodeExecutionToolResultError OfRequestTextEditorCodeExecutionViewResultBlock " +
			"OfRequestToolSearchToolResultError OfRequestToolSearchToolSearchResultBlock",
		"a call that the caller's machine answers, and the answer": "OfToolUse OfToolResult OfDirect OfCodeExecution20250825 OfCodeExecution20260120 OfBrowserState OfTabOpened OfDownloadStarted OfDownloadCompleted OfDownloadFailed",
	},
}

// TestNetOfUnions: each tool, part and item that an SDK can send is refused, priced or held, or known to be
// harmless.
func TestNetOfUnions(t *testing.T) {
	free := map[string][]string{}
	for _, u := range unions {
		w := newTill(t)
		for _, v := range variantsOf(u.of, deepest) {
			if w.costs(u.path, strings.Replace(u.in, "%", v.json(t), 1)) {
				continue
			}
			free[u.path] = append(free[u.path], strings.Fields(v.name)...)
		}
	}
	for path, reasons := range harmless {
		table := map[string]string{}
		for reason, members := range reasons {
			for _, member := range strings.Fields(members) {
				assert.Empty(t, table[member], member)
				table[member] = reason
			}
		}
		assertExcused(t, table, free[path])
	}
}
