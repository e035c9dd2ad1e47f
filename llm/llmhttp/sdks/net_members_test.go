package sdks

import (
	"cmp"
	"go/ast"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3/responses"
	"github.com/stretchr/testify/assert"
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
