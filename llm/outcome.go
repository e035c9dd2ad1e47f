package llm

import (
	"context"
	"errors"

	"github.com/dynalimit/dynalimit/budget"
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

// Sent says that the request is on its way to the provider. From then on nothing gives the call
// back as a whole, for it may be billed: Rollback, and what else ends it without a usage, keep
// the prompt's estimate. Only Failed with an answer that says so gives back.
func (c *Call) Sent() {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sent = true
	}
}

// Failed ends a call without a usage of its provider, as far as its Meter has not Set one:
//
//	not Sent, or 3xx                      all is given back
//	4xx or 5xx before the first token     the tokens are given back; the request too unless Counts
//	Processed, or Sent and no answer      the prompt's estimate stays
//	an error Event in a stream            what was seen; before the first token the prompt's estimate
//	Cut                                   what was seen and its prompt, with StatusCut
//	200 without a usage, anything else    the whole estimate stays
//
// It settles soon, and goes on when ctx has ended. After Settle, Rollback or another Failed it
// does nothing. Errors as of SettleSoon.
func (c *Call) Failed(ctx context.Context, o Outcome) error {
	if err := c.usable(ctx); err != nil {
		return err
	}
	if c.ended() {
		return nil
	}
	usage, back := c.failed(ctx, o)
	if back {
		return c.giveBack(ctx)
	}
	usage, bad := c.possible(ctx, usage, nil)
	return errors.Join(bad, c.SettleSoon(ctx, usage))
}

// failed is what is counted of a call that ended so; back means that it is given back.
func (c *Call) failed(ctx context.Context, o Outcome) (usage Usage, back bool) {
	usage.Status = StatusError
	if o.Cut || ctx.Err() != nil {
		usage.Status = StatusCut
	}
	usage.Tokens, usage.unseen = c.metered(usage)
	seen := usage.Tokens != (budget.Tokens{})
	prompt := func() (Usage, bool) {
		if !seen {
			usage.Tokens.Input, usage.unseen = c.request.Estimate.InputTokens, promptUnseen
		}
		return usage, false
	}
	switch {
	case !c.wasSent() && !seen && o.Status == 0, o.Status >= 300 && o.Status < 400:
		return Usage{}, true
	case seen || o.Processed || o.Status == 0 || o.Event != 0 || o.Cut:
		return prompt()
	case o.Status >= 400:
		usage.Status = StatusError // whoever has left: nothing was written to him
		return usage, !o.Counts
	}
	usage.Status = StatusOK
	usage.Tokens, usage.unseen = c.request.Estimate.likely(), allUnseen
	return usage, false
}

func (c *Call) wasSent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent
}
