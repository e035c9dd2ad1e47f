package sdks

import (
	"reflect"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/assert"
)

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
