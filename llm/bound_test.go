package llm_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/prices"
)

// tokens is short for what the tables are full of.
type tokens = prices.Tokens

const million = 1_000_000

// autumn is a day on which the prices of all models here are in force.
var autumn = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// worst is a request with the dearest usage that it can have, and what the provider's price
// list makes of that: in dollars per million tokens, which is micro-dollars per token.
type worst struct {
	name, model string
	estimate    llm.Estimate
	usage       llm.Usage
	micros      float64
}

// hexBytes and hexTokens are a prompt of digits: a third of its bytes was once taken for the
// most tokens that it could have.
const hexBytes, hexTokens = 150_000, 75_233

// rareKanji are bytes of a prompt in characters that tokenizers know no token for: each byte
// is one.
const rareKanji = 90_000

func openAI() []worst {
	return []worst{
		{
			"plain", "gpt-4o-mini",
			llm.Estimate{InputTokens: 1_000, MaxOutputTokens: 500, ServiceTier: "default"},
			llm.Usage{Tokens: tokens{Input: 1_000, Output: 500}, ServiceTier: "default"},
			1_000*0.15 + 500*0.6,
		},
		{
			"cached", "gpt-4.1",
			llm.Estimate{InputTokens: 10_000, MaxOutputTokens: 500, ServiceTier: "default"},
			llm.Usage{Tokens: tokens{Input: 10, CacheRead: 9_990, Output: 500}, ServiceTier: "default"},
			10*2 + 9_990*0.5 + 500*8,
		},
		{
			"served with priority, as the project is set", "gpt-4.1",
			llm.Estimate{InputTokens: 10_000, MaxOutputTokens: 4_000, ServiceTier: "priority"},
			llm.Usage{Tokens: tokens{Input: 10_000, Output: 4_000}, ServiceTier: "priority"},
			10_000*3.5 + 4_000*14,
		},
		{
			"flex", "gpt-5",
			llm.Estimate{InputTokens: 10_000, MaxOutputTokens: 4_000, ServiceTier: "flex"},
			llm.Usage{Tokens: tokens{Input: 10_000, Output: 4_000}, ServiceTier: "flex"},
			10_000*0.625 + 4_000*5,
		},
		{
			"priority served as the standard", "gpt-5",
			llm.Estimate{InputTokens: 10_000, MaxOutputTokens: 4_000, ServiceTier: "priority"},
			llm.Usage{Tokens: tokens{Input: 10_000, Output: 4_000}, ServiceTier: "default"},
			10_000*1.25 + 4_000*10,
		},
		{
			"long context", "gpt-5.4",
			llm.Estimate{InputTokens: 300_000, MaxOutputTokens: 8_000, ServiceTier: "default"},
			llm.Usage{Tokens: tokens{Input: 300_000, Output: 8_000}, ServiceTier: "default"},
			300_000*5 + 8_000*22.5,
		},
		{
			"reasoning to the bound, four choices", "o3",
			llm.Estimate{InputTokens: 200, MaxOutputTokens: 25_000, Choices: 4, ServiceTier: "default"},
			llm.Usage{Tokens: tokens{Input: 200, Output: 100_000}, ServiceTier: "default"},
			200*2 + 100_000*8,
		},
		{
			"Japanese", "gpt-4o",
			llm.Estimate{InputTokens: rareKanji / 3, InputBytes: rareKanji, MaxOutputTokens: 100, ServiceTier: "default"},
			llm.Usage{Tokens: tokens{Input: rareKanji, Output: 100}, ServiceTier: "default"},
			rareKanji*2.5 + 100*10,
		},
		{
			"hexadecimal", "gpt-4o",
			llm.Estimate{InputTokens: hexBytes / 3, InputBytes: hexBytes, MaxOutputTokens: 100, ServiceTier: "default"},
			llm.Usage{Tokens: tokens{Input: hexTokens, Output: 100}, ServiceTier: "default"},
			hexTokens*2.5 + 100*10,
		},
		{
			"written to the cache, which has no price: a quarter more", "gpt-5.2",
			llm.Estimate{InputTokens: 10_000, MaxOutputTokens: 1, ServiceTier: "default"},
			llm.Usage{Tokens: tokens{CacheWrite5m: 10_000, Output: 1}, ServiceTier: "default"},
			10_000*1.75*1.25 + 14,
		},
	}
}

func anthropic() []worst {
	return []worst{
		{
			"read from the cache", "claude-opus-4-1",
			llm.Estimate{InputTokens: 10_000, MaxOutputTokens: 500},
			llm.Usage{Tokens: tokens{CacheRead: 10_000, Output: 500}},
			10_000*1.5 + 500*75,
		},
		{
			"written for 5 minutes", "claude-opus-4-1",
			llm.Estimate{InputTokens: 10_000, MaxOutputTokens: 500},
			llm.Usage{Tokens: tokens{CacheWrite5m: 10_000, Output: 500}},
			10_000*18.75 + 500*75,
		},
		{
			"written for an hour", "claude-opus-4-1",
			llm.Estimate{InputTokens: 10_000, MaxOutputTokens: 500, CacheHour: true},
			llm.Usage{Tokens: tokens{CacheWrite1h: 10_000, Output: 500}},
			10_000*30 + 500*75,
		},
		{
			"long context", "claude-sonnet-4-0",
			llm.Estimate{InputBytes: 1_900_000, MaxOutputTokens: 4_000},
			llm.Usage{Tokens: tokens{Input: 500_000, Output: 4_000}},
			3_090_000,
		},
		{
			"long context, written for an hour", "claude-sonnet-4-5",
			llm.Estimate{InputBytes: 210_000, MaxOutputTokens: 4_000, CacheHour: true},
			llm.Usage{Tokens: tokens{CacheWrite1h: 210_000, Output: 4_000}},
			210_000*12 + 4_000*22.5,
		},
		{
			"thinking to the bound, in the US", "claude-opus-5",
			llm.Estimate{InputTokens: 1_000, MaxOutputTokens: 64_000, ServiceTier: "us"},
			llm.Usage{Tokens: tokens{Input: 1_000, Output: 64_000}, ServiceTier: "us"},
			1_000*5.5 + 64_000*27.5,
		},
		{
			"five searches and what they bring in", "claude-sonnet-4-6",
			llm.Estimate{InputTokens: 2_000, MaxOutputTokens: 4_000, Tools: map[string]int64{"web_search": 5}, AddedTokens: 150_000},
			llm.Usage{Tokens: tokens{Input: 152_000, Output: 4_000}, Tools: map[string]int64{"web_search": 5}},
			152_000*3 + 4_000*15 + 5*10_000,
		},
		{
			"a short request with tools, before which 530 tokens are written", "claude-haiku-4-5",
			llm.Estimate{InputBytes: 200, MaxOutputTokens: 1},
			llm.Usage{Tokens: tokens{Input: 200 + 530, Output: 1}},
			730 + 5,
		},
		{
			"Japanese", "claude-haiku-4-5",
			llm.Estimate{InputTokens: rareKanji / 3, InputBytes: rareKanji, MaxOutputTokens: 1},
			llm.Usage{Tokens: tokens{CacheWrite5m: rareKanji, Output: 1}},
			rareKanji*1.25 + 5,
		},
		{
			"hexadecimal", "claude-haiku-4-5",
			llm.Estimate{InputTokens: hexBytes / 3, InputBytes: hexBytes, MaxOutputTokens: 1},
			llm.Usage{Tokens: tokens{Input: hexTokens, Output: 1}},
			hexTokens + 5,
		},
	}
}

func gemini() []worst {
	return []worst{
		{
			"plain", "gemini-2.5-flash-lite",
			llm.Estimate{InputTokens: 1_000, MaxOutputTokens: 500},
			llm.Usage{Tokens: tokens{Input: 1_000, Output: 500}},
			1_000*0.1 + 500*0.4,
		},
		{
			"cached", "gemini-2.5-flash",
			llm.Estimate{InputTokens: 10_000, MaxOutputTokens: 500},
			llm.Usage{Tokens: tokens{Input: 1, CacheRead: 9_999, Output: 500}},
			0.3 + 9_999*0.03 + 500*2.5,
		},
		{
			"sound", "gemini-2.5-flash",
			llm.Estimate{InputTokens: 100, AddedTokens: 57_600, MaxOutputTokens: 500, Sound: true},
			llm.Usage{Tokens: tokens{Input: 57_700, Output: 500}, SoundTokens: 57_600},
			100*0.3 + 57_600 + 500*2.5,
		},
		{
			"sound with priority", "gemini-3-flash-preview",
			llm.Estimate{InputTokens: 57_600, MaxOutputTokens: 500, Sound: true, ServiceTier: "priority"},
			llm.Usage{Tokens: tokens{Input: 57_600, Output: 500}, SoundTokens: 57_600, ServiceTier: "priority"},
			57_600*1.8 + 500*5.4,
		},
		{
			"sound that is cheaper than text", "gemini-3.5-flash",
			llm.Estimate{InputTokens: 10_000, MaxOutputTokens: 500, Sound: true, ServiceTier: "standard"},
			llm.Usage{Tokens: tokens{Input: 10_000, Output: 500}, SoundTokens: 1, ServiceTier: "standard"},
			9_999*1.5 + 1 + 500*9,
		},
		{
			"long context", "gemini-2.5-pro",
			llm.Estimate{InputBytes: 800_001, MaxOutputTokens: 8_000},
			llm.Usage{Tokens: tokens{Input: 200_001, Output: 8_000}},
			200_001*2.5 + 8_000*15,
		},
		{
			"thoughts to the bound, eight candidates", "gemini-2.5-pro",
			llm.Estimate{InputTokens: 1_000, MaxOutputTokens: 65_536, Choices: 8},
			llm.Usage{Tokens: tokens{Input: 1_000, Output: 8 * 65_536}},
			1_000*1.25 + 8*65_536*10,
		},
		{
			"grounded by searches", "gemini-2.5-flash",
			llm.Estimate{InputTokens: 1_000, MaxOutputTokens: 1_000, Tools: map[string]int64{"web_search": 3}, AddedTokens: 20_000},
			llm.Usage{Tokens: tokens{Input: 21_000, Output: 1_000}, Tools: map[string]int64{"web_search": 3}},
			21_000*0.3 + 1_000*2.5 + 3*35_000,
		},
		{
			"Japanese", "gemini-2.0-flash",
			llm.Estimate{InputTokens: rareKanji / 3, InputBytes: rareKanji, MaxOutputTokens: 1},
			llm.Usage{Tokens: tokens{Input: rareKanji, Output: 1}},
			rareKanji*0.1 + 0.4,
		},
		{
			"hexadecimal", "gemini-3.1-flash-lite",
			llm.Estimate{InputTokens: hexBytes / 3, InputBytes: hexBytes, MaxOutputTokens: 1, ServiceTier: "standard"},
			llm.Usage{Tokens: tokens{Input: hexTokens, Output: 1}},
			hexTokens*0.25 + 1.5,
		},
	}
}

func bedrock() []worst {
	return []worst{
		{
			"plain", "amazon.nova-micro-v1:0",
			llm.Estimate{InputTokens: 1_000, MaxOutputTokens: 500},
			llm.Usage{Tokens: tokens{Input: 1_000, Output: 500}},
			1_000*0.035 + 500*0.14,
		},
		{
			"cached", "us.amazon.nova-pro-v1:0",
			llm.Estimate{InputTokens: 10_000, MaxOutputTokens: 500},
			llm.Usage{Tokens: tokens{Input: 1, CacheRead: 9_999, Output: 500}},
			0.8 + 9_999*0.2 + 500*3.2,
		},
		{
			"written for 5 minutes", "anthropic.claude-3-5-sonnet-20241022-v2:0",
			llm.Estimate{InputTokens: 10_000, MaxOutputTokens: 500},
			llm.Usage{Tokens: tokens{CacheWrite5m: 10_000, Output: 500}},
			10_000*3.75 + 500*15,
		},
		{
			"written for an hour, in one region", "us.anthropic.claude-haiku-4-5-20251001-v1:0",
			llm.Estimate{InputTokens: 10_000, MaxOutputTokens: 500, CacheHour: true},
			llm.Usage{Tokens: tokens{CacheWrite1h: 10_000, Output: 500}},
			10_000*2.2 + 500*5.5,
		},
		{
			"anywhere", "global.anthropic.claude-haiku-4-5-20251001-v1:0",
			llm.Estimate{InputTokens: 10_000, MaxOutputTokens: 500},
			llm.Usage{Tokens: tokens{Input: 10_000, Output: 500}},
			10_000 + 500*5,
		},
		{
			"long context, in one region", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
			llm.Estimate{InputBytes: 1_900_000, MaxOutputTokens: 4_000},
			llm.Usage{Tokens: tokens{Input: 500_000, Output: 4_000}},
			500_000*6.6 + 4_000*24.75,
		},
		{
			"long context, anywhere", "global.anthropic.claude-sonnet-4-5-20250929-v1:0",
			llm.Estimate{InputBytes: 1_900_000, MaxOutputTokens: 4_000},
			llm.Usage{Tokens: tokens{Input: 500_000, Output: 4_000}},
			500_000*6 + 4_000*22.5,
		},
		{
			"reasoning to the bound", "us.deepseek.r1-v1:0",
			llm.Estimate{InputTokens: 500, MaxOutputTokens: 32_000},
			llm.Usage{Tokens: tokens{Input: 500, Output: 32_000}},
			500*1.35 + 32_000*5.4,
		},
		{
			"Japanese", "amazon.nova-lite-v1:0",
			llm.Estimate{InputTokens: rareKanji / 3, InputBytes: rareKanji, MaxOutputTokens: 1},
			llm.Usage{Tokens: tokens{Input: rareKanji, Output: 1}},
			rareKanji*0.06 + 0.24,
		},
		{
			"hexadecimal", "meta.llama3-3-70b-instruct-v1:0",
			llm.Estimate{InputTokens: hexBytes / 3, InputBytes: hexBytes, MaxOutputTokens: 1},
			llm.Usage{Tokens: tokens{Input: hexTokens, Output: 1}},
			(hexTokens + 1) * 0.72,
		},
	}
}

// TestNoBillExceedsWhatWasHeld: ten requests of each provider, each with the dearest usage that
// it can have.
func TestNoBillExceedsWhatWasHeld(t *testing.T) {
	for provider, table := range map[string][]worst{"OpenAI": openAI(), "Anthropic": anthropic(), "Gemini": gemini(), "Bedrock": bedrock()} {
		t.Run(provider, func(t *testing.T) {
			assert.Len(t, table, 10)
			w := memWorld(t)
			w.clock.set(autumn)
			g := w.moneyGuard(million * million)
			for _, tt := range table {
				t.Run(tt.name, func(t *testing.T) {
					c, err := g.Start(t.Context(), llm.Request{Entity: user, Resource: "all", Model: tt.model, Estimate: tt.estimate})
					require.NoError(t, err)
					held := c.Lease().Used()["usd"]
					require.NoError(t, c.Settle(t.Context(), tt.usage))
					bill := c.Lease().Used()["usd"]
					assert.Equal(t, int64(math.Ceil(tt.micros-1e-6)), bill, "rounded up once")
					assert.LessOrEqual(t, bill, held)
				})
			}
		})
	}
}

// moneyGuard is a guard of the limiter alone, for micro-dollars a day.
func (w *world) moneyGuard(perDay int64, adapt ...func(*llm.Options)) *llm.Guard {
	w.t.Helper()
	w.limits(dynalimit.PerDay("usd", perDay))
	return w.guard(with{limiter: true}, append([]func(*llm.Options){func(o *llm.Options) {
		o.Limits = map[string]llm.Measure{"usd": llm.Cost(prices.CatalogList())}
	}}, adapt...)...)
}
