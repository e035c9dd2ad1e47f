package llm

import (
	"github.com/dynalimit/dynalimit/prices"
)

// Outcome is how a call ended for which its provider reported no usage.
type Outcome struct {
	// Status is that of the HTTP answer; 0 if none came.
	Status int
	// Event is the status that an error event inside a stream names, which had begun with 200;
	// 0 for no such event.
	Event int
	// Cut means that the reply broke off, or that nobody waited for it any longer.
	Cut bool
	// Counts means that the provider counts requests that fail, as OpenAI and Gemini do: what a
	// limit counts by Requests stays.
	Counts bool
	// Processed means that the prompt is billed whatever the status, as Azure's content filter
	// and some of Bedrock's errors are.
	Processed bool
}

// keeps is what stays of a call that ended so: its usage, or, with back, nothing. sent means that
// its request was on its way, left that nobody waits for it, and u is what its meter saw.
func (o Outcome) keeps(u Usage, e Estimate, sent, left bool) (usage Usage, back bool) {
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
		u.Status = StatusError // whoever has left: no reply was cut
		return u, !o.Counts
	default:
		u.Tokens, u.unseen, u.Status = e.likely(), allUnseen, StatusOK
	}
	return u, false
}
