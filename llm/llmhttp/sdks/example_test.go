package sdks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/bedrock"
	claude "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/vertex"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	gopenai "github.com/sashabaranov/go-openai"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/genai"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp"
	"github.com/dynalimit/dynalimit/llm/llmtest"
	"github.com/dynalimit/dynalimit/prices"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// fake is a test of which the examples' provider wants only how long it lasts.
type fake struct{ testing.TB }

func (fake) Context() context.Context { return context.Background() }

// base is where the examples' calls go, in place of a provider.
func base() http.RoundTripper { return llmtest.New(fake{}).Transport() }

// exampleLimiter allows so many requests and 100,000 tokens a minute.
func exampleLimiter(requests int64) *dynalimit.RateLimiter {
	repo := must(dynalimit.NewRepository(ddbmem.New().Client(), "limits", nil))
	if err := repo.CreateTable(context.Background()); err != nil {
		panic(err)
	}
	return must(dynalimit.New(repo, &dynalimit.Options{
		Limits: []dynalimit.Limit{dynalimit.PerMinute("rpm", requests), dynalimit.PerMinute("tpm", 100_000)},
	}))
}

// exampleTransport is that of the first example, for another model.
func exampleTransport(model string) *llmhttp.Transport {
	guard := must(llm.New(&llm.Options{Limiter: exampleLimiter(60)}))
	return must(llmhttp.NewTransport(base(), guard, &llmhttp.Options{Models: llmhttp.Models{model: {}}}))
}

func exampleCaller() context.Context {
	return llmhttp.WithCaller(context.Background(), llmhttp.Caller{Entity: "team-a"})
}

// OpenAI's SDK: a call that is limited, charged and settled, and one that is denied.
func Example_openAI() {
	limiter, base, ctx := exampleLimiter(1), base(), context.Background()
	guard := must(llm.New(&llm.Options{Limiter: limiter}))
	transport := must(llmhttp.NewTransport(base, guard, &llmhttp.Options{ // base: nil for http.DefaultTransport
		Models: llmhttp.Models{"gpt-4.1": {}, "gpt-4.1-mini": {}},
	}))
	client := openai.NewClient(option.WithHTTPClient(&http.Client{Transport: transport}), option.WithAPIKey("key"))

	params := openai.ChatCompletionNewParams{Model: "gpt-4.1", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hi")}}
	ask := func() {
		ctx := llmhttp.WithCaller(ctx, llmhttp.Caller{Entity: "team-a"})
		answer, err := client.Chat.Completions.New(ctx, params)
		if denial, ok := llmhttp.DenialOf(err); ok {
			wait, ok := denial.RetryIn() // false: no wait helps
			fmt.Println("denied", wait > 0, ok)
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(answer.Choices[0].Message.Content)
	}
	ask()
	ask()
	// Output:
	// Hello.
	// denied true true
}

// Anthropic's SDK.
func Example_anthropic() {
	transport, ctx := exampleTransport("claude-sonnet-4-5"), exampleCaller()
	client := anthropic.NewClient(claude.WithHTTPClient(&http.Client{Transport: transport}), claude.WithAPIKey("key"))
	answer, err := client.Messages.New(ctx, asked("claude-sonnet-4-5"))
	fmt.Println(answer.Content[0].Text, err)
	// Output: Hello. <nil>
}

// Anthropic's SDK in its modes for Bedrock and Vertex, where the client stands before the mode.
func Example_anthropicElsewhere() {
	transport, ctx := exampleTransport("claude-sonnet-4-5"), exampleCaller()
	cfg := awsConfig                                                                                               // of config.LoadDefaultConfig
	credentials := &google.Credentials{TokenSource: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "token"})} // of google.FindDefaultCredentials
	limited := claude.WithHTTPClient(&http.Client{Transport: transport})
	onBedrock := anthropic.NewClient(limited, bedrock.WithConfig(cfg))
	onVertex := anthropic.NewClient(limited, vertex.WithCredentials(ctx, "us-east5", "project", credentials))
	for _, client := range []anthropic.Client{onBedrock, onVertex} {
		answer, err := client.Messages.New(ctx, asked("claude-sonnet-4-5"))
		fmt.Println(answer.Content[0].Text, err)
	}
	// Output:
	// Hello. <nil>
	// Hello. <nil>
}

// baseOf is the transport that a configuration of AWS has made: with AWS_CA_BUNDLE, proxies and
// timeouts.
func baseOf(cfg aws.Config) http.RoundTripper {
	if client, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok {
		return client.GetTransport()
	}
	return http.DefaultTransport
}

// AWS's SDK for Bedrock.
func Example_bedrock() {
	transport, ctx, cfg := exampleTransport("us.amazon.nova-pro-v1:0"), exampleCaller(), awsConfig
	client := bedrockruntime.NewFromConfig(cfg, func(o *bedrockruntime.Options) {
		o.HTTPClient = &http.Client{Transport: transport}
	})
	answer, err := client.Converse(ctx, &bedrockruntime.ConverseInput{ModelId: aws.String("us.amazon.nova-pro-v1:0"), Messages: said})
	fmt.Println(*answer.Usage.TotalTokens, err)
	// Output: 15 <nil>
}

// Google's SDK, for Gemini and for Vertex.
func Example_genai() {
	transport, ctx := exampleTransport("gemini-2.5-flash"), exampleCaller()
	client := must(genai.NewClient(ctx, &genai.ClientConfig{
		APIKey: "key", Backend: genai.BackendGeminiAPI, HTTPClient: &http.Client{Transport: transport},
	}))
	answer, err := client.Models.GenerateContent(ctx, "gemini-2.5-flash", genai.Text("Hi"), nil)
	fmt.Println(answer.Text(), err)
	// Output: Hello. <nil>
}

// The SDK github.com/sashabaranov/go-openai.
func Example_goOpenAI() {
	transport, ctx := exampleTransport("gpt-4.1"), exampleCaller()
	config := gopenai.DefaultConfig("key")
	config.HTTPClient = &http.Client{Transport: transport}
	client := gopenai.NewClientWithConfig(config)
	answer, err := client.CreateChatCompletion(ctx, gopenai.ChatCompletionRequest{
		Model: "gpt-4.1", Messages: []gopenai.ChatCompletionMessage{{Role: gopenai.ChatMessageRoleUser, Content: "Hi"}},
	})
	fmt.Println(answer.Choices[0].Message.Content, err)
	// Output: Hello. <nil>
}

// exampleRepository is a new table for changes in the name of an operator.
func exampleRepository() *dynalimit.Repository {
	repo := must(dynalimit.NewRepository(ddbmem.New().Client(), "limits", &dynalimit.RepositoryOptions{Principal: "ops@example.com"}))
	if err := repo.CreateTable(context.Background()); err != nil {
		panic(err)
	}
	return repo
}

// Requests, tokens and dollars over all models: of a user by a plan, and of the user's team.
func Example_planAndTeam() {
	ctx, base, repo := context.Background(), base(), exampleRepository()
	params := openai.ChatCompletionNewParams{
		Model: "gpt-4.1", MaxCompletionTokens: openai.Int(1_000),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hi")},
	}

	// Once, by an operator: a group of models, a plan, a team and its user.
	a, zone := admin.New(repo), "America/Los_Angeles"
	_, err := a.Limits.SetConfig(ctx, admin.Scope{Everyone: true, Resource: "gpt-4.1"}, admin.LimitConfig{Groups: []string{"all"}})
	err = errors.Join(err,
		a.Limits.Set(ctx, admin.Scope{Plan: "free", Resource: "all"}, []dynalimit.Limit{
			dynalimit.PerMinute("rpm", 1), dynalimit.PerMinute("tpm", 20_000), dynalimit.DailyMoneyQuota("usd", dynalimit.Dollars(1), zone),
		}),
		a.Limits.Set(ctx, admin.Scope{Entity: "team-a", Resource: "all"}, []dynalimit.Limit{dynalimit.DailyMoneyQuota("usd", dynalimit.Dollars(50), zone)}),
		a.Entities.Create(ctx, admin.Entity{ID: "team-a"}),
		a.Entities.Create(ctx, admin.Entity{ID: "ann", ParentID: "team-a", Plan: "free"}),
	)
	if err != nil {
		panic(err)
	}

	// In the service: a guard measures calls, and a transport puts it below the SDK.
	limiter := must(dynalimit.New(repo, nil))
	guard := must(llm.New(&llm.Options{Limiter: limiter, Limits: map[string]llm.Measure{
		"rpm": llm.Requests, "tpm": llm.TotalTokens, "usd": llm.Cost(prices.CatalogList()),
	}}))
	transport := must(llmhttp.NewTransport(base, guard, &llmhttp.Options{Models: llmhttp.Models{"gpt-4.1": {}}}))
	client := openai.NewClient(option.WithHTTPClient(&http.Client{Transport: transport}), option.WithAPIKey("key"))

	ask := func() {
		ctx := llmhttp.WithCaller(ctx, llmhttp.Caller{Entity: "ann"})
		answer, err := client.Chat.Completions.New(ctx, params)
		if denied, ok := llmhttp.DenialOf(err); ok {
			wait, ok := denied.RetryIn() // false: no wait helps
			fmt.Println("denied:", wait > 0, ok)
			return
		}
		fmt.Println(answer.Choices[0].Message.Content, err)
	}
	ask()
	ask()
	left := must(limiter.Check(ctx, "ann", "gpt-4.1", nil)).Available()
	fmt.Println(left["usd"], "of 1000000 micro-dollars left")
	// Output:
	// Hello. <nil>
	// denied: true true
	// 999952 of 1000000 micro-dollars left
}
