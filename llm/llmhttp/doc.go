// Package llmhttp limits and settles model calls on their way to the provider: an
// http.RoundTripper for the SDKs of OpenAI, Anthropic, AWS and Google, and for gateways.
//
//	guard, err := llm.New(&llm.Options{Limiter: limiter})
//	…
//	transport, err := llmhttp.NewTransport(nil, guard, &llmhttp.Options{
//		Models: llmhttp.Models{"gpt-4.1": {}, "gpt-4.1-mini": {}},
//	})
//	…
//	client := openai.NewClient(option.WithHTTPClient(&http.Client{Transport: transport}))
//	ctx = llmhttp.WithCaller(ctx, llmhttp.Caller{Entity: "team-a"})
//	answer, err := client.Chat.Completions.New(ctx, params)
//	if denial, ok := llmhttp.DenialOf(err); ok { … denial.RetryIn() … }
//	if away, ok := llmhttp.UnavailableOf(err); ok { … DynamoDB did not answer … }
//
// Each attempt of an SDK is a call. The transport estimates it from its body, the guard admits it, and
// the transport settles it at the reported usage, before the caller has the answer's end. No byte of the
// answer is delayed. A denied call is answered in the provider's own shape, so
// that the SDK returns its own error: after one attempt, or, if the call fits within 5 s, after the SDK's
// retries at the time in the answer.
//
// # Recognised calls
//
// OpenAI's Chat Completions, Responses and their compaction, Embeddings and Completions, also as
// Azure, Bedrock and Vertex serve them; Anthropic's Messages, direct and on Vertex; Bedrock's
// InvokeModel and Converse, streamed or not; Gemini's generateContent, streamGenerateContent and
// embedContent. Counting tokens is free. Everything else (batches, files, pictures, realtime) passes
// untouched and unmetered, and is logged. If llm.Cost limits money, it is refused, except for reads
// and the routes of Options.AllowUnmetered.
//
// # Costs beyond tokens
//
// If llm.Cost limits money, a tool of the provider's must be known to be free, or have a price and a
// bound of its uses. Otherwise its call is refused before it is sent, as are a service tier and a
// model without a price.
//
// # Outcomes
//
//	a reported usage                      the usage is charged
//	not sent, or 3xx                      all is given back
//	4xx or 5xx                            the tokens are given back; OpenAI and Gemini count the request
//	sent without an answer                the prompt's estimate stays
//	an error inside a stream              the counted tokens; before the first token the prompt's estimate
//	an unreadable stream                  the whole estimate, as for a call that goes on in the background
//	a cut stream                          the prompt and the counted tokens; for Cost, Options.CutTokens of the guard more
//	200 without a usage                   a stream: the prompt's estimate and the counted tokens; else the whole estimate
package llmhttp
