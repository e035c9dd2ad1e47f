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
//	if away, ok := llmhttp.UnavailableOf(err); ok { … the limits could not be asked … }
//
// Each attempt of an SDK is a call: it is estimated from its body, admitted by the guard, and
// settled at what the answer says was used, before the caller has the answer's end. The answer
// passes without a byte delayed. A call that is denied is answered in the provider's own shape, so
// that the SDK returns its own error: after one attempt, or, if the call fits within 5 s, after the SDK's
// retries at the time that the answer tells.
//
// # What is recognised
//
// OpenAI's Chat Completions, Responses and their compaction, Embeddings and Completions, also as
// Azure, Bedrock and Vertex serve them; Anthropic's Messages, direct and on Vertex; Bedrock's
// InvokeModel and Converse, streamed or not; Gemini's generateContent, streamGenerateContent and
// embedContent. Counting tokens is free. Everything else (batches, files, pictures, realtime) passes
// untouched and unmetered, and is logged; where llm.Cost limits money it is refused, but for reads
// and what Options.AllowUnmetered names.
//
// # What costs more than tokens
//
// Where llm.Cost limits money, a tool of the provider's is known to be free, or has a price and a
// bound of its uses, or its call is refused before anything is sent, as are a service tier and a
// model without a price.
//
// # How a call ends
//
//	the usage was told                    that is charged
//	nothing was sent, or 3xx              all is given back
//	4xx or 5xx                            the tokens are given back; OpenAI and Gemini count the request
//	sent, and no answer                   the prompt's estimate stays
//	an error inside a stream              what was seen; before the first token the prompt's estimate
//	a stream that nobody can read         the whole estimate, as of one that goes on in the background
//	a stream that is cut                  the prompt and what was seen; for Cost, Options.CutTokens of the guard more
//	200 without a usage                   a stream: the prompt's estimate and what was seen; else the whole estimate
package llmhttp
