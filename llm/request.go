package llm

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit"
)

// Request is a model call to be made. Entity and Resource are for the limiter,
// Org, App and Label for the budget.
type Request struct {
	// Entity is who is limited.
	Entity string
	// Resource is what the limits are on. Defaults to the model.
	Resource string
	// Model is what is called, by the id that the prices have. Defaults to the label's model,
	// which comes before it, or to the Resource.
	Model string

	// Org and App are whose budget pays.
	Org, App string
	// Label is the model label to use. Empty: the recommended one. With it and the
	// Resource a call can start while the Keeper does not answer and never did.
	Label string
	// RequestID is the canonical UUID under which the call is counted once.
	// Defaults to a new one.
	RequestID string
	// Tags attribute the cost, as in prices.Usage; they are checked before the
	// call.
	Tags map[string]string

	// Estimate is what the call is admitted by; Settle corrects it.
	Estimate Estimate
	// Limits replace the guard's for this call.
	Limits map[string]Measure
	// Wait is how long the call may stand in line for its limits, never longer than nine tenths
	// of the time until its context's deadline: it is denied then, in time. Defaults to 0: it is
	// denied at once.
	Wait time.Duration
	// AcquireOptions are the limiter's, for example dynalimit.WithLimits.
	AcquireOptions []dynalimit.AcquireOption
}

// newRequestID is a random UUID.
func newRequestID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
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
