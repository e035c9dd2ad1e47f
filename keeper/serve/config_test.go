package keeper

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

// TestParseReadsWhatIsDocumented: the file of docs/keeper.md has every key, and is read.
func TestParseReadsWhatIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/keeper.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(page), "```yaml\n")
	require.True(t, ok)
	text, _, _ := strings.Cut(rest, "```")
	c, err := Parse("keeper.yaml", []byte(text))
	require.NoError(t, err)
	require.NoError(t, c.Check())
	assert.Equal(t, TLS{"tls.crt", "tls.key"}, c.TLS)
	assert.Equal(t, Span(168*time.Hour), c.Tokens.Refresh)
	assert.Equal(t, Span(5*time.Second), c.Shutdown.Delay)
	assert.Equal(t, "https://prices.example.com/data.json", c.Prices.Refresh.From)
	assert.Equal(t, "keeper.spool", c.Spool)
	assert.Equal(t, OnUnavailable{Policy(budget.Allow), Policy(budget.Allow)}, c.OnUnavailable)
	rows := c.defaultPrices()
	require.Len(t, rows, 1)
	assert.Equal(t, "acme.own-model", rows[0].Model)
	assert.Equal(t, prices.Rates{Input: 1_000_000, Output: 4_000_000}, rows[0].Rates)
}

// TestParseSaysWhere: an error has the line and the column of what is wrong, and of a value
// of the wrong kind which key has it and what it has to be, in no words of Go.
func TestParseSaysWhere(t *testing.T) {
	for text, want := range map[string]string{
		"nope: 1\n":                                 "f.yaml:1:1",
		"tls:\n  cert: a\n  ca: b\n":                "f.yaml:3:3",
		"prices: {default: {m: {inputs: 1}}}\n":     "f.yaml:1:24",
		"prices: {default: {m: {input: 1.5}}}\n":    "f.yaml:1:31",
		"aggregation: {every: 1 minute}\n":          "f.yaml:1:22",
		"metering: twice\n":                         "f.yaml:1:11",
		"on_unavailable: {recommend: no}\n":         "f.yaml:1:29",
		"on_unavailable: {submit: [allow]}\n":       "f.yaml:1:26",
		"tokens: {access: [1h]}\n":                  "f.yaml:1:18",
		"listen: a\nlisten: b\n":                    "f.yaml:2:1",
		"listen: [\n":                               "f.yaml:",
		"listen: a\n---\nnope: 1\n":                 "f.yaml:3:1: is a second document",
		"behind_proxy: 10.0.0.0/8\n":                "f.yaml:1:15: behind_proxy: is no list",
		"aggregation: {off: maybe}\n":               "f.yaml:1:20: aggregation.off: is \"maybe\": write true or false",
		"aggregation:\n  off: [true]\n":             "f.yaml:2:8: aggregation.off: is a list or a mapping: write one value",
		"tls: cert.pem\n":                           "f.yaml:1:6: tls: is \"cert.pem\": write its keys below it",
		"prices: {default: [1]}\n":                  "f.yaml:1:19: prices.default: is a list: write its keys below it",
		"prices:\n  refresh: {providers: openai}\n": "f.yaml:2:24: prices.refresh.providers: is no list",
		"imported_hashes: 1\n":                      "f.yaml:1:18: imported_hashes: is \"1\": write true or false",
		"- listen\n":                                "f.yaml:1:1: is a list: write its keys below it",
		"aggregation: {evry: 1m}\n":                 "f.yaml:1:15: aggregation: \"evry\" is unknown here: write one of off, every",
	} {
		_, err := Parse("f.yaml", []byte(text))
		if assert.ErrorContains(t, err, want, text) {
			assert.NotContains(t, err.Error(), "Go ", text)
		}
	}
	for _, text := range []string{"", "# nothing\n", "---\n", "---\nlisten: a\n", "listen: a\n---\n# nothing\n", "listen: a\n...\n", "tls:\n  # cert: c\nlisten:\nlinger:\nbehind_proxy: []\ntokens: {}\n"} {
		_, err := Parse("f.yaml", []byte(text))
		assert.NoError(t, err, text)
	}
	for _, text := range []string{"# the keeper's\n---\nlisten: a\n", "---\n# the keeper's\nlisten: a\n", "\n---\nlisten: a\n...\n"} {
		c, err := Parse("f.yaml", []byte(text))
		require.NoError(t, err, text)
		assert.Equal(t, "a", c.Listen, text)
	}
}

// TestCheckListensWhereSecretsAreSafe: in the clear on this machine alone.
func TestCheckListensWhereSecretsAreSafe(t *testing.T) {
	for address, alone := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "example.com:1": false, "localhost.example.com:1": false,
	} {
		c := Default()
		c.Listen = address
		err := c.Check()
		assert.Equal(t, alone, err == nil, "%s: %v", address, err)
		own, proxied := c, c
		own.TLS, proxied.BehindProxy = TLS{"c", "k"}, []string{"10.0.0.0/8"}
		assert.NoError(t, own.Check(), address)
		assert.NoError(t, proxied.Check(), address)
	}
}

// TestCheckLosesNoUsage: what would lose usage is refused.
func TestCheckLosesNoUsage(t *testing.T) {
	checked(t, map[string]string{
		"on_unavailable: {submit: allow}\n":           "--spool FILE",
		"spool: s\nmetering: batch\n":                 "",
		"spool: s\non_unavailable: {submit: allow}\n": "",
	})
}

// TestLingerIsForAnswersUnlessItIsForCost: the default answers in little more than the store
// takes, and metering that saves write units waits as long as the library does.
func TestLingerIsForAnswersUnlessItIsForCost(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"":                              2 * time.Millisecond,
		"metering: batch\n":             0, // the library's
		"linger: 25ms\n":                25 * time.Millisecond,
		"linger: 1s\nmetering: batch\n": time.Second,
	} {
		c, err := Parse("f.yaml", []byte(text))
		require.NoError(t, err, text)
		require.NoError(t, c.Check(), text)
		s := &Service{config: c}
		assert.Equal(t, want, s.keeperOptions().Linger, text)
	}
	for _, text := range []string{"linger: 0s\n", "linger: 500us\n", "linger: 2s\n", "linger: -1ms\n"} {
		c, err := Parse("f.yaml", []byte(text))
		require.NoError(t, err, text)
		assert.ErrorContains(t, c.Check(), "linger is", text)
	}
}
