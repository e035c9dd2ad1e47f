package llm

import (
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// maxTokens is the most tokens of one class, as in package budget.
const maxTokens = 100_000_000

// Request is a model call to be made. Entity and Resource are for the limiter,
// Org, App and Label for the budget.
type Request struct {
	// Entity is who is limited.
	Entity string
	// Resource is what the limits are on. Defaults to the model of the label.
	Resource string

	// Org and App are whose budget pays.
	Org, App string
	// Label is the model label to use. Empty: the recommended one. With it and the
	// Resource a call can start while the Keeper does not answer and never did.
	Label string
	// RequestID is the canonical UUID under which the call is counted once.
	// Defaults to a new one.
	RequestID string
	// Tags attribute the cost, as in budget.Usage; they are checked before the
	// call.
	Tags map[string]string

	// Estimate is what the call is admitted by; Settle corrects it.
	Estimate Estimate
	// Limits replace the guard's for this call.
	Limits map[string]Measure
	// AcquireOptions are the limiter's, for example dynalimit.WithLimits.
	AcquireOptions []dynalimit.AcquireOption
}

// Estimate is what is known of a call before it is made.
type Estimate struct {
	// InputTokens is the length of the prompt.
	InputTokens int64
	// MaxOutputTokens is the most that the reply may have.
	MaxOutputTokens int64
	// LikelyOutputTokens is what the limits are charged for the reply before
	// the call. Defaults to MaxOutputTokens.
	LikelyOutputTokens int64
}

// Measure is how much of a limit a call with these tokens takes, 0 or more. It
// is asked for the estimate before the call and for the true tokens after it.
// One that panics is a *ValidationError of Start, and the Lease of an
// *UnsettledError of Settle: the call is counted all the same.
type Measure func(budget.Tokens) int64

// Requests counts the call itself.
func Requests(budget.Tokens) int64 { return 1 }

// TotalTokens counts the tokens of every class.
func TotalTokens(t budget.Tokens) int64 { return InputTokens(t) + t.Output }

// InputTokens counts the prompt, cached or not.
func InputTokens(t budget.Tokens) int64 {
	return t.Input + t.CacheRead + t.CacheWrite5m + t.CacheWrite1h
}

// OutputTokens counts the reply.
func OutputTokens(t budget.Tokens) int64 { return t.Output }

// UncachedTokens counts all but the input read from the prompt cache, for
// providers that do not limit those.
func UncachedTokens(t budget.Tokens) int64 { return TotalTokens(t) - t.CacheRead }

// DefaultLimits are one request of "rpm" and every token of "tpm".
func DefaultLimits() map[string]Measure {
	return map[string]Measure{"rpm": Requests, "tpm": TotalTokens}
}

// measured is what a call with these tokens takes of each limit.
func measured(limits map[string]Measure, t budget.Tokens) (dynalimit.Amounts, error) {
	amounts := make(dynalimit.Amounts, len(limits))
	for name, measure := range limits {
		n, err := measure.of(name, t)
		if err != nil {
			return nil, err
		}
		amounts[name] = n
	}
	return amounts, nil
}

// of asks the Measure of a limit. It is the user's: what is wrong with it is an
// error, because a call may have to be counted.
func (m Measure) of(limit string, t budget.Tokens) (n int64, err error) {
	field := "limits[" + limit + "]"
	defer func() {
		if cause := recover(); cause != nil {
			err = invalid(field, "its Measure panicked on %+v: %v", t, cause)
		}
	}()
	if n = m(t); n < 0 {
		return 0, invalid(field, "its Measure is %d of %+v; it must be 0 or more", n, t)
	}
	return n, nil
}

func (e Estimate) validate() error {
	for _, n := range []struct {
		name  string
		value int64
	}{{"InputTokens", e.InputTokens}, {"MaxOutputTokens", e.MaxOutputTokens}, {"LikelyOutputTokens", e.LikelyOutputTokens}} {
		if n.value < 0 || n.value > maxTokens {
			return invalid("estimate."+n.name, "is %d; give 0 to %d", n.value, maxTokens)
		}
	}
	if e.LikelyOutputTokens > e.MaxOutputTokens {
		return invalid("estimate.LikelyOutputTokens", "is %d, more than MaxOutputTokens (%d)", e.LikelyOutputTokens, e.MaxOutputTokens)
	}
	return nil
}

// likely is what the limits are charged for before the call.
func (e Estimate) likely() budget.Tokens {
	output := e.LikelyOutputTokens
	if output == 0 {
		output = e.MaxOutputTokens
	}
	return budget.Tokens{Input: e.InputTokens, Output: output}
}

// prompt is the part of it that is certain.
func (e Estimate) prompt() budget.Tokens { return budget.Tokens{Input: e.InputTokens} }

func checkLimits(field string, limits map[string]Measure) error {
	if len(limits) == 0 {
		return invalid(field, "is empty; leave it nil for rpm and tpm, or give a Measure for each limit")
	}
	for name, measure := range limits {
		if reason := schema.CheckLimitName(name); reason != "" {
			return invalid(field, "limit name %s", reason)
		}
		if measure == nil {
			return invalid(field+"["+name+"]", "is nil; give a Measure, for example llm.TotalTokens")
		}
	}
	return nil
}

// newRequestID is a random UUID.
func newRequestID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// need is what a call takes of the limits: its estimate, and of that the prompt.
type need struct{ estimate, prompt dynalimit.Amounts }

func (r Request) need() (n need, err error) {
	if n.estimate, err = measured(r.Limits, r.Estimate.likely()); err != nil {
		return n, err
	}
	n.prompt, err = measured(r.Limits, r.Estimate.prompt())
	return n, err
}

// capped lowers the amounts that err says exceed a burst. It reports false when
// there is none, or when even the least is more than the burst.
func capped(amounts, least dynalimit.Amounts, err error) bool {
	var exceeded *dynalimit.LimitExceededError
	if !errors.As(err, &exceeded) || exceeded.RetryAfter != dynalimit.Never || errors.Is(err, dynalimit.ErrUnconfirmed) {
		return false
	}
	lowered := false
	for _, s := range exceeded.Statuses {
		burst := s.Limit.Burst
		if amounts[s.Limit.Name] <= burst {
			continue
		}
		if least[s.Limit.Name] > burst {
			return false
		}
		amounts[s.Limit.Name], lowered = burst, true
	}
	return lowered
}
