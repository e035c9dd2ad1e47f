package llmtest

import (
	"net/http"
	"time"
)

// Answer scripts the answer to a call. Answer{} is a short reply of 12 tokens in and 3 out.
type Answer struct {
	// Text is the reply. Defaults to "Hello.".
	Text string
	// Events is the number of a stream's pieces; some are empty if the text is shorter. Defaults to 3.
	Events int

	// Input and the next fields are the reported usage, in tokens. No field includes
	// another: Input is neither read from a cache nor written to one. Each dialect sums them up
	// in its way. If all are 0, Input is 12 and Output 3.
	Input int64
	// CacheRead is input read from a cache. Defaults to 0.
	CacheRead int64
	// CacheWrite is written for 5 minutes, CacheWrite1h for an hour. OpenAI reports the sum of
	// the two, Gemini neither: there they are input.
	CacheWrite, CacheWrite1h int64
	// Output is the whole reply, Reasoning its hidden part.
	Output, Reasoning int64
	// NoUsage reports no usage at all.
	NoUsage bool
	// Model is the answering model, Tier the service tier. Default to the requested model, and
	// to no tier.
	Model, Tier string

	// Status is the status of HTTP. Defaults to 200. From 400 on the body is an error in the form of
	// the dialect.
	Status int
	// Code is the dialect's own name of that error, such as insufficient_quota, overloaded_error,
	// ThrottlingException or RESOURCE_EXHAUSTED. Defaults to the name for Status.
	Code string
	// RetryAfter is sent with an error in the dialect's way: in a header, for Gemini in the body.
	// Bedrock does not send it. Defaults to 0, not at all.
	RetryAfter time.Duration
	// Header is added to the answer's header, in place of fields of the same name.
	Header http.Header
	// Body replaces the answer's body, streamed or not. The reported usage is then
	// the fields of Answer, 0 by default. Defaults to the dialect's body.
	Body string

	// CutAfter breaks the connection after that many events of a stream, or in the middle of an
	// unstreamed body; below 0 before the header. Defaults to 0, not at all.
	CutAfter int
	// Error ends a stream with an error, by the dialect's name of it, such as overloaded_error,
	// server_error, throttlingException or UNAVAILABLE, after ErrorAfter events. OpenAI's
	// Responses end with response.failed and the usage, or with NoUsage in the event error.
	Error string
	// ErrorAfter is the number of events before Error. Defaults to 0: it is the first.
	ErrorAfter int
	// WrongCRC makes the checksum of an AWS stream's last frame wrong.
	WrongCRC bool
	// Gzip compresses the answer if the client accepts that.
	Gzip bool

	// Delay is before the header, Between before each event but the first.
	Delay, Between time.Duration
	// Hold delays the last event, or an unstreamed body, until it
	// is closed or has a value. Defaults to nil: no delay.
	Hold <-chan struct{}
}

// Usage is the usage of a call, in tokens, as in Answer.
type Usage struct {
	// Input is neither read from a cache nor written to one.
	Input int64
	// CacheRead is input read from a cache.
	CacheRead int64
	// CacheWrite is written to a cache for 5 minutes, CacheWrite1h for an hour.
	CacheWrite, CacheWrite1h int64
	// Output is the whole reply, Reasoning its hidden part.
	Output, Reasoning int64
}

// reportedUsage returns the usage to report, in tokens: 12 of input and 3 of output if all fields are 0 and
// Body is empty.
func (a *Answer) reportedUsage() Usage {
	u := Usage{a.Input, a.CacheRead, a.CacheWrite, a.CacheWrite1h, a.Output, a.Reasoning}
	if u == (Usage{}) && a.Body == "" {
		u.Input, u.Output = 12, 3
	}
	return u
}

// prompt returns the tokens of the whole input: uncached, read from the cache and written to it.
func (u Usage) prompt() int64 { return u.Input + u.CacheRead + u.CacheWrite + u.CacheWrite1h }

// total returns the tokens of all classes. Reasoning is part of the output.
func (u Usage) total() int64 { return u.prompt() + u.Output }
