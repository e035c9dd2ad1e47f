package sdks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/bedrock"
	claude "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/vertex"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	gopenai "github.com/sashabaranov/go-openai"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/genai"

	"github.com/dynalimit/dynalimit/llm/llmtest"
)

// The names of one model on the wire.
const (
	model           = "m"
	profile         = "arn:aws:bedrock:us-east-1:1:inference-profile/us.m" // that the path escapes
	claudeOnBedrock = "us.anthropic.m-v1:0"
)

// sdk is a form of calls, as one SDK makes them.
type sdk struct {
	name string
	// call asks for a reply with a client, from a provider.
	call func(ctx context.Context, c *http.Client, url string) (reply string, err error)
	*family
	streamed bool
	// embeds means that the reply is a vector.
	embeds bool
}

// family is what forms of calls have in common.
type family struct {
	// denied says that an error is what the SDK makes of a status 429.
	denied func(error) bool
	// usage has all kinds of tokens that the provider knows.
	usage llmtest.Answer
	// wrong is an error that ends a stream.
	wrong string
	// counts means that the provider counts requests that fail, retries that the SDK tries again.
	counts, retries bool
	// aws means that streams have checksums.
	aws bool
}

var (
	ofOpenAI    = llmtest.Answer{Input: 700, CacheRead: 300, CacheWrite: 40, Output: 50, Reasoning: 20}
	ofAnthropic = llmtest.Answer{Input: 700, CacheRead: 300, CacheWrite: 40, CacheWrite1h: 8, Output: 50, Reasoning: 20}

	openAI = &family{denied: func(err error) bool {
		e, ok := errors.AsType[*openai.Error](err)
		return ok && e.StatusCode == http.StatusTooManyRequests
	}, usage: ofOpenAI, wrong: "server_error", counts: true, retries: true}
	vectors = &family{denied: openAI.denied, usage: llmtest.Answer{Input: 700}, counts: true, retries: true}

	goOpenAI = &family{denied: func(err error) bool {
		e, ok := errors.AsType[*gopenai.APIError](err)
		return ok && e.HTTPStatusCode == http.StatusTooManyRequests
	}, usage: ofOpenAI, wrong: "server_error", counts: true}
	direct  = &family{denied: deniedClaude, usage: ofAnthropic, wrong: "api_error", retries: true}
	onAWS   = &family{denied: deniedClaude, usage: ofAnthropic, wrong: "internalServerException", retries: true, aws: true}
	amazons = &family{denied: func(err error) bool {
		_, ok := errors.AsType[*types.ServiceQuotaExceededException](err)
		return ok
	}, usage: ofAnthropic, wrong: "internalServerException", retries: true, aws: true}
	gemini = &family{denied: func(err error) bool {
		e, ok := errors.AsType[genai.APIError](err)
		return ok && e.Code == http.StatusTooManyRequests
	}, usage: llmtest.Answer{Input: 700, CacheRead: 300, Output: 50, Reasoning: 20}, wrong: "INTERNAL", counts: true, retries: true}
)

func deniedClaude(err error) bool {
	e, ok := errors.AsType[*anthropic.Error](err)
	return ok && e.StatusCode == http.StatusTooManyRequests
}

var sdks = []sdk{
	{"openai-go chat", chat, openAI, false, false},
	{"openai-go chat, streamed", chatStream, openAI, true, false},
	{"openai-go responses", respond, openAI, false, false},
	{"openai-go responses, streamed", respondStream, openAI, true, false},
	{"openai-go embeddings", embed, vectors, false, true},
	{"go-openai chat", goChat(onOpenAI), goOpenAI, false, false},
	{"go-openai chat, streamed", goChatStream(onOpenAI), goOpenAI, true, false},
	{"go-openai on Azure", goChat(onAzure), goOpenAI, false, false},
	{"go-openai on Azure, streamed", goChatStream(onAzure), goOpenAI, true, false},
	{"anthropic-sdk-go", message(model), direct, false, false},
	{"anthropic-sdk-go, streamed", messageStream(model), direct, true, false},
	{"anthropic-sdk-go on Bedrock", message(claudeOnBedrock, bedrockMode()), onAWS, false, false},
	{"anthropic-sdk-go on Bedrock, streamed", messageStream(claudeOnBedrock, bedrockMode()), onAWS, true, false},
	{"anthropic-sdk-go on Vertex", message(model, vertexMode()), direct, false, false},
	{"anthropic-sdk-go on Vertex, streamed", messageStream(model, vertexMode()), direct, true, false},
	{"bedrockruntime Converse", converse, amazons, false, false},
	{"bedrockruntime ConverseStream", converseStream, amazons, true, false},
	{"bedrockruntime InvokeModel", invoke, amazons, false, false},
	{"bedrockruntime InvokeModelWithResponseStream", invokeStream, amazons, true, false},
	{"genai", generate(genai.BackendGeminiAPI), gemini, false, false},
	{"genai, streamed", generateStream(genai.BackendGeminiAPI), gemini, true, false},
	{"genai on Vertex", generate(genai.BackendVertexAI), gemini, false, false},
	{"genai on Vertex, streamed", generateStream(genai.BackendVertexAI), gemini, true, false},
}

// stream is that of the SDKs of OpenAI and Anthropic.
type stream[T any] interface {
	Next() bool
	Current() T
	Err() error
	Close() error
}

// read reads a stream to its end.
func read[T any](s stream[T], piece func(T) string) (reply string, err error) {
	for s.Next() {
		reply += piece(s.Current())
	}
	return reply, errors.Join(s.Err(), s.Close())
}

func newOpenAI(c *http.Client, url string) openai.Client {
	return openai.NewClient(option.WithHTTPClient(c), option.WithBaseURL(url+"/v1/"), option.WithAPIKey("key"))
}

var question = openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hi")}}

func chat(ctx context.Context, c *http.Client, url string) (string, error) {
	client := newOpenAI(c, url)
	answer, err := client.Chat.Completions.New(ctx, question)
	if err != nil {
		return "", err
	}
	return answer.Choices[0].Message.Content, nil
}

func chatStream(ctx context.Context, c *http.Client, url string) (string, error) {
	client := newOpenAI(c, url)
	return read(client.Chat.Completions.NewStreaming(ctx, question), func(e openai.ChatCompletionChunk) string { return e.Choices[0].Delta.Content })
}

func respond(ctx context.Context, c *http.Client, url string) (string, error) {
	client := newOpenAI(c, url)
	answer, err := client.Responses.New(ctx, task)
	if err != nil {
		return "", err
	}
	return answer.OutputText(), nil
}

var task = responses.ResponseNewParams{Model: model, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("Hi")}}

func respondStream(ctx context.Context, c *http.Client, url string) (string, error) {
	client := newOpenAI(c, url)
	var failed error // which the SDK tells as an event
	reply, err := read(client.Responses.NewStreaming(ctx, task), func(e responses.ResponseStreamEventUnion) string {
		if e.Type == "error" || e.Type == "response.failed" {
			failed = errors.New(e.Type)
		}
		return e.Delta
	})
	return reply, errors.Join(err, failed)
}

func embed(ctx context.Context, c *http.Client, url string) (string, error) {
	client := newOpenAI(c, url)
	answer, err := client.Embeddings.New(ctx, openai.EmbeddingNewParams{Model: model, Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("Hi")}})
	if err != nil {
		return "", err
	}
	return fmt.Sprint(answer.Data[0].Embedding), nil
}

func onOpenAI(url string) gopenai.ClientConfig {
	config := gopenai.DefaultConfig("key")
	config.BaseURL = url + "/v1"
	return config
}

func onAzure(url string) gopenai.ClientConfig { return gopenai.DefaultAzureConfig("key", url) }

var goQuestion = gopenai.ChatCompletionRequest{Model: model, Messages: []gopenai.ChatCompletionMessage{{Role: "user", Content: "Hi"}}}

func goChat(config func(url string) gopenai.ClientConfig) func(context.Context, *http.Client, string) (string, error) {
	return func(ctx context.Context, c *http.Client, url string) (string, error) {
		with := config(url)
		with.HTTPClient = c
		answer, err := gopenai.NewClientWithConfig(with).CreateChatCompletion(ctx, goQuestion)
		if err != nil {
			return "", err
		}
		return answer.Choices[0].Message.Content, nil
	}
}

func goChatStream(config func(url string) gopenai.ClientConfig) func(context.Context, *http.Client, string) (string, error) {
	return func(ctx context.Context, c *http.Client, url string) (reply string, err error) {
		with := config(url)
		with.HTTPClient = c
		s, err := gopenai.NewClientWithConfig(with).CreateChatCompletionStream(ctx, goQuestion)
		if err != nil {
			return "", err
		}
		defer s.Close()
		for {
			e, err := s.Recv()
			if errors.Is(err, io.EOF) {
				return reply, nil
			}
			if err != nil {
				return reply, err
			}
			reply += e.Choices[0].Delta.Content
		}
	}
}

var awsConfig = aws.Config{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")}

func bedrockMode() claude.RequestOption { return bedrock.WithConfig(awsConfig) }

func vertexMode() claude.RequestOption {
	return vertex.WithCredentials(context.Background(), "us-east5", "project", &google.Credentials{TokenSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "token"})})
}

func newClaude(c *http.Client, url string, mode []claude.RequestOption) anthropic.Client {
	options := append([]claude.RequestOption{claude.WithHTTPClient(c), claude.WithAPIKey("key")}, mode...)
	return anthropic.NewClient(append(options, claude.WithBaseURL(url))...)
}

func asked(model string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: model, MaxTokens: 100,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hi"))},
	}
}

func message(model string, mode ...claude.RequestOption) func(context.Context, *http.Client, string) (string, error) {
	return func(ctx context.Context, c *http.Client, url string) (string, error) {
		client := newClaude(c, url, mode)
		answer, err := client.Messages.New(ctx, asked(model))
		if err != nil {
			return "", err
		}
		return answer.Content[0].Text, nil
	}
}

func messageStream(model string, mode ...claude.RequestOption) func(context.Context, *http.Client, string) (string, error) {
	return func(ctx context.Context, c *http.Client, url string) (string, error) {
		client := newClaude(c, url, mode)
		return read(client.Messages.NewStreaming(ctx, asked(model)), func(e anthropic.MessageStreamEventUnion) string { return e.Delta.Text })
	}
}

func newBedrock(c *http.Client, url string) *bedrockruntime.Client {
	return bedrockruntime.NewFromConfig(awsConfig, func(o *bedrockruntime.Options) { o.HTTPClient, o.BaseEndpoint = c, &url })
}

var said = []types.Message{{Role: types.ConversationRoleUser, Content: []types.ContentBlock{&types.ContentBlockMemberText{Value: "Hi"}}}}

func converse(ctx context.Context, c *http.Client, url string) (string, error) {
	answer, err := newBedrock(c, url).Converse(ctx, &bedrockruntime.ConverseInput{ModelId: aws.String(profile), Messages: said})
	if err != nil {
		return "", err
	}
	return answer.Output.(*types.ConverseOutputMemberMessage).Value.Content[0].(*types.ContentBlockMemberText).Value, nil
}

func converseStream(ctx context.Context, c *http.Client, url string) (reply string, err error) {
	answer, err := newBedrock(c, url).ConverseStream(ctx, &bedrockruntime.ConverseStreamInput{ModelId: aws.String(profile), Messages: said})
	if err != nil {
		return "", err
	}
	s := answer.GetStream()
	for e := range s.Events() {
		if delta, ok := e.(*types.ConverseStreamOutputMemberContentBlockDelta); ok {
			reply += delta.Value.Delta.(*types.ContentBlockDeltaMemberText).Value
		}
	}
	return reply, errors.Join(s.Err(), s.Close())
}

var body = []byte(`{"anthropic_version":"bedrock-2023-05-31","max_tokens":100,"messages":[{"role":"user","content":"Hi"}]}`)

func invoke(ctx context.Context, c *http.Client, url string) (string, error) {
	answer, err := newBedrock(c, url).InvokeModel(ctx, &bedrockruntime.InvokeModelInput{ModelId: aws.String(model), Body: body})
	if err != nil {
		return "", err
	}
	var m struct{ Content []struct{ Text string } }
	err = json.Unmarshal(answer.Body, &m)
	return m.Content[0].Text, err
}

func invokeStream(ctx context.Context, c *http.Client, url string) (reply string, err error) {
	answer, err := newBedrock(c, url).InvokeModelWithResponseStream(ctx, &bedrockruntime.InvokeModelWithResponseStreamInput{ModelId: aws.String(model), Body: body})
	if err != nil {
		return "", err
	}
	s := answer.GetStream()
	for e := range s.Events() {
		var event struct{ Delta struct{ Text string } }
		err = errors.Join(err, json.Unmarshal(e.(*types.ResponseStreamMemberChunk).Value.Bytes, &event))
		reply += event.Delta.Text
	}
	return reply, errors.Join(err, s.Err(), s.Close())
}

func newGemini(ctx context.Context, backend genai.Backend, c *http.Client, url string) (*genai.Client, error) {
	config := &genai.ClientConfig{Backend: backend, HTTPClient: c, HTTPOptions: genai.HTTPOptions{
		BaseURL:      url,
		RetryOptions: &genai.HTTPRetryOptions{HTTPStatusCodes: []int32{500, 502, 503, 504}}, // a denial is final
	}}
	if backend == genai.BackendGeminiAPI {
		config.APIKey = "key"
	} else {
		config.Project, config.Location = "project", "us-central1"
	}
	return genai.NewClient(ctx, config)
}

func generate(backend genai.Backend) func(context.Context, *http.Client, string) (string, error) {
	return func(ctx context.Context, c *http.Client, url string) (string, error) {
		client, err := newGemini(ctx, backend, c, url)
		if err != nil {
			return "", err
		}
		answer, err := client.Models.GenerateContent(ctx, model, genai.Text("Hi"), nil)
		if err != nil {
			return "", err
		}
		return answer.Text(), nil
	}
}

func generateStream(backend genai.Backend) func(context.Context, *http.Client, string) (string, error) {
	return func(ctx context.Context, c *http.Client, url string) (reply string, err error) {
		client, err := newGemini(ctx, backend, c, url)
		if err != nil {
			return "", err
		}
		for e, err := range client.Models.GenerateContentStream(ctx, model, genai.Text("Hi"), nil) {
			if err != nil {
				return reply, err
			}
			reply += e.Text()
		}
		return reply, nil
	}
}
