package llmhttp

import (
	"net/http"
	"strconv"
	"time"

	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/dialect"
)

// shortPause is for a provider that gives no time.
const shortPause = time.Second

// says has the times in the headers of an answer.
type says struct {
	retry time.Time // zero if the answer has no time
	unit  time.Time // when the next request or token of an empty limit is free; zero if that is not known
	empty bool      // a limit of the provider has nothing left
}

// readLimitTimes returns the times in the headers of an answer that arrived at now, zero if not given. They are
// those of a retry, and of the next free unit of an empty limit. It also records whether a limit of the
// provider is empty.
func readLimitTimes(h http.Header, now time.Time) (s says) {
	if d := retryAfter(h, now); d > 0 {
		s.retry = now.Add(d)
	}
	d, empty := nextUnit(h, now)
	if s.empty = empty; d > 0 {
		s.unit = now.Add(d)
	}
	return s
}

// pressure is the pause that an answer asks for.
type pressure struct {
	wait time.Duration // 0 if the answer does not say stop, or no wait helps
	one  bool          // the answer may be about the requests of one entity
}

// pressureOf returns the pause that an answer asks for, by its status, headers and failure; zero if none helps.
// A 429 with a time, or with an empty limit, pauses all callers of a credential, any other 429 the caller only.
// A success with an empty limit pauses all until its next unit.
func pressureOf(shape *dialect.Shape, status int, s says, f *dialect.Failure, now time.Time) pressure {
	if f != nil && status < 300 {
		status = shape.StatusOf(f)
	}
	if !shape.IsCurable(f) || shape.RefusesRequest(f) {
		return pressure{}
	}
	switch {
	case status == http.StatusTooManyRequests, status == statusOverloaded:
		if f != nil && f.RetryDelay > 0 {
			return pressure{wait: f.RetryDelay}
		}
		if d := s.retry.Sub(now); d > 0 {
			return pressure{wait: d}
		}
		return pressure{max(shortPause, s.unit.Sub(now)), status == http.StatusTooManyRequests && !s.empty}
	case status < 300:
		return pressure{wait: s.unit.Sub(now)}
	}
	return pressure{}
}

const statusOverloaded = 529 // of Anthropic

// retryAfter returns the wait in an answer's Retry-After-Ms or Retry-After header, as milliseconds, seconds or
// a date. It is 0 or negative if they give none or a past one.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil {
		return at.Sub(now)
	}
	return 0
}

// nextUnit reports whether one of the provider's own limits is used up, by its headers. It returns the longest
// time until each has one request or token again, 0 if unknown. A limit refills evenly until its reset: of 120
// that are full in 60 s one is free in 0.5 s.
func nextUnit(h http.Header, now time.Time) (d time.Duration, empty bool) {
	for _, limit := range []string{"Requests", "Tokens", "Input-Tokens", "Output-Tokens"} {
		for _, name := range [][2]string{{"X-Ratelimit-", "-" + limit}, {"Anthropic-Ratelimit-" + limit + "-", ""}} {
			told := func(what string) string { return h.Get(name[0] + what + name[1]) }
			if told("Remaining") != "0" {
				continue
			}
			empty = true
			if most, err := strconv.ParseInt(told("Limit"), 10, 64); err == nil && most > 0 {
				d = max(d, timeUntil(told("Reset"), now)/time.Duration(most))
			}
		}
	}
	return d, empty
}

// timeUntil returns the time from now until a reset header's value: "6m0s" of OpenAI, seconds of Azure, an
// instant of Anthropic. It is 0 for any other text, and negative for a past instant.
func timeUntil(v string, now time.Time) time.Duration {
	if d, err := time.ParseDuration(v); err == nil {
		return d
	}
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := time.Parse(time.RFC3339, v); err == nil {
		return at.Sub(now)
	}
	return 0
}
