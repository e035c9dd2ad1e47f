package dialect

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/internal/problem"
)

// Refusal is an answer of the transport itself.
type Refusal struct {
	// Status is 400, 401, 403, 404, 413, 415, 429, 500 or 503.
	Status int
	// Message has the reason.
	Message string
	// Wait is the time until a retry; 0 if unknown, negative if no wait helps.
	Wait time.Duration
	// Again means that an SDK may try again by itself after Wait.
	Again bool
	// Stainless means that the client is an SDK of OpenAI's and Anthropic's kind, which X-Should-Retry
	// stops at any status.
	Stainless bool
}

// Shape is the form of a provider's errors.
type Shape struct {
	// names are its names for each status of a Refusal.
	names map[int]string
	// status is its own status of some of them.
	status map[int]int
	// again are the names of those that its SDKs retry.
	again map[int]string
	// final is the status of those that its SDKs would retry, for clients that are not
	// Stainless and may not.
	final map[int]int
	// body is the error's JSON.
	body func(status int, name, message string) any
	// header holds the name of the error; empty if only the body does.
	header string
	// Events are the statuses of errors inside a stream by their names.
	Events map[string]int
	// Final are the names of errors with status 429 which no wait cures.
	Final []string
	// Processed are the names of errors after which the prompt is billed.
	Processed []string
	// TooLarge are parts of the messages of errors with status 429 about a single request: other
	// requests are not refused.
	TooLarge []string
}

// Answer returns the HTTP status, headers and JSON body of a refusal in the provider's shape. Headers, and for
// some SDKs status and name too, are chosen so that the SDK retries after Wait exactly if refusal.Again.
func (s *Shape) Answer(refusal Refusal) (status int, h http.Header, body []byte) {
	status, name := refusal.Status, s.names[refusal.Status]
	if own, ok := s.status[status]; ok {
		status = own
	}
	if again, ok := s.again[refusal.Status]; ok && refusal.Again {
		name = again
	}
	if final, ok := s.final[refusal.Status]; ok && !refusal.Again && !refusal.Stainless {
		status = final
	}
	h = http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}}
	if s.header != "" {
		h.Set(s.header, name)
	}
	h.Set("X-Should-Retry", strconv.FormatBool(refusal.Again))
	if refusal.Wait > 0 {
		ms := strconv.FormatInt(int64((refusal.Wait+time.Millisecond-1)/time.Millisecond), 10)
		h.Set("Retry-After", problem.RetryAfterText(refusal.Wait))
		h.Set("Retry-After-Ms", ms)
		if s.again != nil && refusal.Again {
			h.Set("X-Amz-Retry-After", ms)
		}
	}
	body, _ = json.Marshal(s.body(status, name, refusal.Message)) // strings and numbers
	return status, h, body
}

// StatusOf returns the HTTP status of an error inside a stream: that of the first known name, else the one in
// the error. It is 0 if unknown.
func (s *Shape) StatusOf(f *Failure) int {
	for _, name := range f.Names {
		if status := s.Events[name]; status != 0 {
			return status
		}
	}
	return f.Status
}

// IsCurable reports whether a wait may cure an error: none of its names is in Final. It is true for nil.
func (s *Shape) IsCurable(f *Failure) bool {
	return f == nil || !slices.ContainsFunc(f.Names, func(name string) bool { return slices.Contains(s.Final, name) })
}

// RefusesRequest reports whether a 429 concerns its request alone, such as one that is too large, by its
// message. It is false for nil.
func (s *Shape) RefusesRequest(f *Failure) bool {
	return f != nil && slices.ContainsFunc(s.TooLarge, func(part string) bool { return strings.Contains(f.Message, part) })
}

// BillsPrompt reports whether the provider bills the prompt of a failed call all the same, by the names of the
// failure. It is false for nil.
func (s *Shape) BillsPrompt(f *Failure) bool {
	return f != nil && slices.ContainsFunc(f.Names, func(name string) bool { return slices.Contains(s.Processed, name) })
}

// Plain is the shape of errors for an unknown provider: problem details (RFC 9457).
var Plain = &Shape{
	body: func(status int, _, message string) any {
		return map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": message}
	},
}
