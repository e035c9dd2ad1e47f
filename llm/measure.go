package llm

import (
	"fmt"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Measure returns the amount that a call takes of a limit, 0 or more. The guard calls it with the
// estimate before the call and with the usage after it. An error, a panic or a negative amount is an error of
// Start, and the Lease of an *UnsettledError of Settle: the call is counted all the same.
type Measure func(Usage) (int64, error)

// Requests is a Measure that returns 1 for each call, for a limit of requests.
func Requests(Usage) (int64, error) { return 1, nil }

// InFlight is a Measure that returns 1 for each call, for a limit of dynalimit.Concurrent. The guard gives the
// slot back with the settlement.
func InFlight(Usage) (int64, error) { return 1, nil }

// TotalTokens is a Measure that returns the number of tokens of every class: prompt, cached or not, and reply.
func TotalTokens(u Usage) (int64, error) { return inputTokens(u.Tokens) + u.Tokens.Output, nil }

// InputTokens is a Measure that returns the number of tokens of the prompt, cached or not.
func InputTokens(u Usage) (int64, error) { return inputTokens(u.Tokens), nil }

// OutputTokens is a Measure that returns the number of tokens of the reply.
func OutputTokens(u Usage) (int64, error) { return u.Tokens.Output, nil }

// UncachedTokens is a Measure that returns the number of tokens of prompt and reply without the input read from
// the prompt cache. It is for providers that do not limit cached input.
func UncachedTokens(u Usage) (int64, error) {
	return inputTokens(u.Tokens) + u.Tokens.Output - u.Tokens.CacheRead, nil
}

// DefaultLimits returns a new map of measures: "rpm" measures 1 for each call, "tpm" the number of all its
// tokens.
func DefaultLimits() map[string]Measure {
	return map[string]Measure{"rpm": Requests, "tpm": TotalTokens}
}

// measureCall runs the Measure of the named limit and returns the amount. It returns an error for a panic or a
// negative amount too, because the call may still have to be counted.
func (m Measure) measureCall(limit string, u Usage) (n int64, err error) {
	field := "limits[" + limit + "]"
	defer func() {
		if cause := recover(); cause != nil {
			err = invalid(field, "its Measure panicked on %+v: %v", u.Tokens, cause)
		}
	}()
	if n, err = m(u); err != nil {
		return 0, fmt.Errorf("llm: %s: %w", field, err)
	}
	if n < 0 {
		return 0, invalid(field, "its Measure is %d of %+v; it must be 0 or more", n, u.Tokens)
	}
	return n, nil
}

// measuresMoney reports whether a Measure is Cost or calls it, by a trial run with an empty usage. A failed run
// counts as false unless Cost ran.
func (m Measure) measuresMoney(limit string) bool {
	h := held{asked: true}
	_, _ = m.measureCall(limit, Usage{held: &h})
	return h.money
}

// checkLimits returns a *ValidationError if limits are empty, or one has an invalid name or a nil Measure. The
// error names the option or request field.
func checkLimits(field string, limits map[string]Measure) error {
	if len(limits) == 0 {
		return invalid(field, "is empty; leave it nil for rpm and tpm, or give a Measure for each limit")
	}
	for name, measure := range limits {
		if reason := schema.LimitRule.Check(name); reason != "" {
			return invalid(field, "limit name %s", reason)
		}
		if measure == nil {
			return invalid(field+"["+name+"]", "is nil; give a Measure, for example llm.TotalTokens")
		}
	}
	return nil
}

// need is the amounts that a call requests of the limits: its estimate, the lower bounds of
// the estimate, and the state of its money measurement.
type need struct {
	estimate, least dynalimit.Amounts
	money           map[string]*held
}

// computeNeed returns the amounts of a call before it is made: for each limit the estimate, and the least. The
// least is the prompt's part, for money the whole. It keeps the prices that limits of money have read, and
// returns the error of a Measure, such as ErrNoPrice.
func computeNeed(limits map[string]Measure, model string, call held) (need, error) {
	n := need{estimate: dynalimit.Amounts{}, least: dynalimit.Amounts{}, money: map[string]*held{}}
	for name, measure := range limits {
		h := call // each limit has prices of its own
		u := Usage{Model: model, ServiceTier: call.estimate.ServiceTier, Time: call.at, Tokens: call.estimate.likelyTokens(), held: &h}
		most, err := measure.measureCall(name, u)
		if err != nil {
			return n, err
		}
		least := most
		if h.price == nil {
			u.Tokens = call.estimate.promptTokens()
			if least, err = measure.measureCall(name, u); err != nil {
				return n, err
			}
		} else {
			n.money[name] = &h
		}
		n.estimate[name], n.least[name] = most, least
	}
	return n, nil
}

// measureUsage returns the final amount of each limit for the usage of a made call, in the unit of its Measure.
// It uses the prices read before the call. It returns the error of a Measure, and then no amounts.
func (n need) measureUsage(limits map[string]Measure, u Usage) (dynalimit.Amounts, error) {
	amounts := make(dynalimit.Amounts, len(limits))
	for name, measure := range limits {
		u.held = n.money[name]
		amount, err := measure.measureCall(name, u)
		if err != nil {
			return nil, err
		}
		amounts[name] = amount
	}
	return amounts, nil
}
