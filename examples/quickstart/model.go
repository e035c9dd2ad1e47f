package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// model stands in for an LLM. It takes a moment, and says only afterwards how
// many tokens a call used.
type model struct {
	random *rand.Rand
	// overloaded makes the calls fail.
	overloaded bool
}

// prompt is what is known before a call.
type prompt struct {
	// text is its length in characters, maxReply the most tokens the model may
	// answer with.
	text, maxReply int64
}

// charactersPerToken is the usual guess for English.
const charactersPerToken = 4

// estimate is the most that the call is likely to use, in tokens.
func (p prompt) estimate() int64 { return p.text/charactersPerToken + p.maxReply }

// promptOf is a prompt whose estimate is tokens.
func promptOf(tokens, maxReply int64) prompt {
	return prompt{text: (tokens - maxReply) * charactersPerToken, maxReply: maxReply}
}

// reply is what a provider reports with its answer.
type reply struct{ input, output int64 }

func (r reply) total() int64 { return r.input + r.output }

var errOverloaded = errors.New("503 overloaded")

// newModel returns a model whose answers are the same in every run.
func newModel() *model { return &model{random: rand.New(rand.NewPCG(1, 2))} }

// call answers a prompt: the guess of its length was a few percent off, and the
// reply is about half of what was allowed.
func (m *model) call(ctx context.Context, p prompt) (reply, error) {
	thinking := time.NewTimer(80*time.Millisecond + time.Duration(m.random.IntN(80))*time.Millisecond)
	defer thinking.Stop()
	select {
	case <-thinking.C:
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
	if m.overloaded {
		return reply{}, errOverloaded
	}
	guess := float64(p.text / charactersPerToken)
	share := min(1, max(0.05, 0.5+0.2*m.random.NormFloat64()))
	return reply{
		input:  int64(guess * (0.94 + 0.05*m.random.Float64())),
		output: int64(share * float64(p.maxReply)),
	}, nil
}
