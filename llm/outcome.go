package llm

import (
	"github.com/dynalimit/dynalimit/prices"
)

// Outcome describes the end of a call without a usage of its provider.
type Outcome struct {
	// Status is the status of the HTTP answer; 0 without an answer.
	Status int
	// Event is the status of an error event inside a stream that had begun with 200;
	// 0 without such an event.
	Event int
	// Cut means that the reply broke off, or that its caller left.
	Cut bool
	// Counts means that the provider counts failed requests, as OpenAI and Gemini do: the
	// amount of a limit that Requests measures stays charged.
	Counts bool
	// Processed means that the prompt is billed with any status, as for Azure's content filter
	// and some of Bedrock's errors.
	Processed bool
}

// finalUsage returns the usage to charge for a call without a usage of its provider, with its status. If back
// is true, everything is given back instead. The arguments are the meter's count u, the estimate e, and whether
// the request was sent and its caller left.
func (o Outcome) finalUsage(u Usage, e Estimate, sent, left bool) (usage Usage, back bool) {
	seen := u.Tokens != (prices.Tokens{})
	u.Status = StatusError
	if o.Cut || left {
		u.Status = StatusCut
	}
	switch {
	case !sent && !seen && o.Status == 0, o.Status >= 300 && o.Status < 400:
		return Usage{}, true
	case seen:
	case o.Processed || o.Status == 0 || o.Event != 0 || o.Cut:
		u.Tokens.Input, u.unseen = e.InputTokens, promptUnseen
	case o.Status >= 400:
		u.Status = StatusError // even if the caller left: no reply was cut
		return u, !o.Counts
	default:
		u.Tokens, u.unseen, u.Status = e.likelyTokens(), allUnseen, StatusOK
	}
	return u, false
}
