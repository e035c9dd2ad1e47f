package llm

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit"
)

// Request describes a model call. The limiter uses Entity and Resource,
// the budget Org, App and Label.
type Request struct {
	// Entity is the limited party.
	Entity string
	// Resource is the resource of the limits. Defaults to the model.
	Resource string
	// Model is the called model, by the id of its price. With a Keeper, the label's
	// model replaces it. Defaults to the Resource.
	Model string

	// Org and App are the owner and the program of the budget.
	Org, App string
	// Label is the model label to use. Defaults to the recommended one. With Label and
	// Resource a call can start while the Keeper does not answer and never did.
	Label string
	// RequestID is the canonical UUID under which the call counts once.
	// Defaults to a new one.
	RequestID string
	// Tags attribute the cost, as in prices.Usage; they are checked before the
	// call.
	Tags map[string]string

	// Estimate is the basis of the admission; Settle corrects it.
	Estimate Estimate
	// Limits replace the guard's for this call.
	Limits map[string]Measure
	// Wait is the longest wait in line for the limits. It never exceeds nine tenths
	// of the time until the context's deadline, so that a denial comes in time. Defaults to 0: the
	// call is denied at once.
	Wait time.Duration
	// Batch means that the call leaves the reserve of each limit to interactive calls (dynalimit.WithBatch). An
	// estimate above the burst less the reserve is lowered to that, as one above the burst is for other calls.
	// Defaults to false.
	Batch bool
	// AcquireOptions are options of the limiter, for example dynalimit.WithLimits.
	AcquireOptions []dynalimit.AcquireOption
}

// newRequestID returns a random UUID, version 4.
func newRequestID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// capAmounts lowers, in place, the amounts that exceed a burst according to err; of a batch call the burst
// counts without the reserve. It returns false if it lowers nothing, or if an amount of least, the smallest
// amounts, exceeds a burst: then the call can never fit.
func capAmounts(amounts, least dynalimit.Amounts, batch bool, err error) bool {
	var exceeded *dynalimit.LimitExceededError
	if !errors.As(err, &exceeded) || exceeded.RetryAfter != dynalimit.Never || errors.Is(err, dynalimit.ErrUnconfirmed) {
		return false
	}
	lowered := false
	for _, s := range exceeded.Statuses {
		burst := s.Limit.Burst
		if batch {
			burst -= s.Limit.ReservedTokens()
		}
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
