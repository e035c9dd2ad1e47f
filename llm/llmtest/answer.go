package llmtest

import (
	"net/http"
	"time"
)

// Answer is how a call is answered. Answer{} is a short reply of 12 tokens in and 3 out.
type Answer struct {
	// Text is the reply. Defaults to "Hello.".
	Text string
	// Events is in how many pieces a stream has it; some are empty if it is shorter. Defaults to 3.
	Events int

	// Input and what follows is the usage that is reported, in tokens, of which none is in
	// another: Input is neither read from a cache nor written to one. Each dialect sums them up
	// in its way. If all are 0, Input is 12 and Output 3.
	Input int64
	// CacheRead is what a cache gave.
	CacheRead int64
	// CacheWrite is written for 5 minutes, CacheWrite1h for an hour. OpenAI reports the sum of
	// the two, Gemini neither: there they are input.
	CacheWrite, CacheWrite1h int64
	// Output is the whole reply, Reasoning what of it is not shown.
	Output, Reasoning int64
	// NoUsage reports no usage at all.
	NoUsage bool
	// Model is who answers, Tier the service tier. Default to the model that was asked for, and
	// to none.
	Model, Tier string

	// Status is that of HTTP. Defaults to 200. From 400 on the body is an error as the dialect
	// writes it.
	Status int
	// Code is the dialect's own name of that error, such as insufficient_quota, overloaded_error,
	// ThrottlingException or RESOURCE_EXHAUSTED. Defaults to what goes with Status.
	Code string
	// RetryAfter is told with an error as the dialect does: in a header, at Gemini in the body.
	// Bedrock does not tell it. Defaults to 0, not at all.
	RetryAfter time.Duration
	// Header is added to that of the answer, in place of fields of the same name.
	Header http.Header
	// Body is the answer's, as it is, streamed or not; the usage is what you say that it tells,
	// then 0 by default. Defaults to what the dialect has.
	Body string

	// CutAfter breaks the connection after so many events of a stream, or in the midst of a body
	// that is no stream; below 0 before the header. Defaults to 0, not at all.
	CutAfter int
	// Error ends a stream with an error, by the dialect's name of it, such as overloaded_error,
	// server_error, throttlingException or UNAVAILABLE, after ErrorAfter events. OpenAI's
	// Responses end with response.failed and the usage, or with NoUsage in the event error.
	Error string
	// ErrorAfter is after how many events Error comes. Defaults to 0: it is the first.
	ErrorAfter int
	// WrongCRC makes the checksum of an AWS stream's last frame wrong.
	WrongCRC bool
	// Gzip compresses the answer if the client accepts that.
	Gzip bool

	// Delay is before the header, Between before each event but the first.
	Delay, Between time.Duration
	// Hold is waited for before the last event, or before the body that is no stream, until it
	// is closed or has something. Defaults to nil: nothing is.
	Hold <-chan struct{}
}

// Usage is what a call used, in tokens, as in Answer.
type Usage struct {
	// Input is neither read from a cache nor written to one.
	Input int64
	// CacheRead is what a cache gave.
	CacheRead int64
	// CacheWrite is written to a cache for 5 minutes, CacheWrite1h for an hour.
	CacheWrite, CacheWrite1h int64
	// Output is the whole reply, Reasoning what of it is not shown.
	Output, Reasoning int64
}

// usage is what the answer reports.
func (a *Answer) usage() Usage {
	u := Usage{a.Input, a.CacheRead, a.CacheWrite, a.CacheWrite1h, a.Output, a.Reasoning}
	if u == (Usage{}) && a.Body == "" {
		u.Input, u.Output = 12, 3
	}
	return u
}

// prompt is all of what went in.
func (u Usage) prompt() int64 { return u.Input + u.CacheRead + u.CacheWrite + u.CacheWrite1h }

// total is all of it.
func (u Usage) total() int64 { return u.prompt() + u.Output }
