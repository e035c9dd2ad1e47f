package main

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/budget"
)

// chunk is a piece of a streamed reply.
type chunk struct {
	text   string
	tokens int64
	// usage is the provider's own count, with the last chunk only.
	usage *budget.Tokens
}

// reply is what the simulated model says, a word at a time.
const reply = "Ask which label has money left, acquire what the call is likely to use, make it, " +
	"and settle what it used: the limits at once, the money right after, one record for both of them."

const tokensPerWord = 40 // they are long words

// stream answers a prompt of so many tokens. It ends early with ctx's error.
func stream(ctx context.Context, prompt int64) iter.Seq2[chunk, error] {
	return func(yield func(chunk, error) bool) {
		ticker := time.NewTicker(15 * time.Millisecond)
		defer ticker.Stop()
		used := budget.Tokens{Input: prompt}
		words := strings.Fields(reply)
		for i, word := range words {
			select {
			case <-ctx.Done():
				yield(chunk{}, ctx.Err())
				return
			case <-ticker.C:
			}
			used.Output += tokensPerWord
			c := chunk{text: word + " ", tokens: tokensPerWord}
			if i == len(words)-1 {
				c.usage = &used
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}
