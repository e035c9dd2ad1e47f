package keeper

import (
	"net/http"
	"testing"

	"github.com/dynalimit/dynalimit/prices"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// checked reads files and checks them: each is refused with its text, or taken if that is empty.
func checked(t *testing.T, files map[string]string) {
	t.Helper()
	for text, want := range files {
		c, err := Parse("f.yaml", []byte(text))
		require.NoError(t, err, text)
		if err = c.Check(); want == "" {
			assert.NoError(t, err, text)
		} else {
			assert.ErrorContains(t, err, want, text)
		}
	}
}

// TestCheckRefusesEachOfThem: what cannot be meant is refused by its name, whichever of its
// parts is wrong, and what is next to it is taken.
func TestCheckRefusesEachOfThem(t *testing.T) {
	checked(t, map[string]string{
		"tls: {cert: c}\n": "both a certificate and its key",
		"tls: {key: k}\n":  "both a certificate and its key",
		"tls: {cert: c}\nbehind_proxy: [10.0.0.0/8]\n":  "both a certificate and its key",
		"tls: {cert: c, key: k}\nlisten: :1\n":          "",
		"metrics: off\n":                                "",
		"metrics: there\n":                              `metrics "there"`,
		"cors_origins: [https://a.example.com]\n":       "",
		"cors_origins: [http://localhost:3000]\n":       "",
		"cors_origins: ['*']\n":                         `"*" is no origin`,
		"cors_origins: [https://Console.example.com]\n": "in lower case",
		"cors_origins: ['https://a.example.com:443']\n": "without :443",
		"cors_origins: ['http://a.example.com:80']\n":   "without :443 or :80",
		"cors_origins: [ftp://a.example.com]\n":         "is no origin",
		"cors_origins: ['https://']\n":                  "is no origin",
		"cors_origins: [https://a.example.com/]\n":      "is no origin",
		"cors_origins: [https://a.example.com/x]\n":     "is no origin",
		"cors_origins: ['https://a@b.example.com']\n":   "is no origin",
		"cors_origins: ['https://a.example.com?x']\n":   "is no origin",
		"tokens: {issuer: ' '}\n":                       "tokens.issuer is empty",
		"tokens: {audience: \"\\t\"}\n":                 "tokens.audience is empty",
		"shutdown: {delay: 5m}\n":                       "",
		"shutdown: {delay: 5m1s}\n":                     "shutdown.delay is 5m1s: give 0s to 5m0s",
		"shutdown: {delay: -1s}\n":                      "shutdown.delay is -1s",
		"shutdown: {time: 15m1s}\n":                     "shutdown.time is 15m1s",
		"tokens: {access: 24h1s}\n":                     "tokens.access is 24h0m1s",
		"tokens: {access: 2h, refresh: 1h}\n":           "tokens.refresh is 1h0m0s, and tokens.access 2h0m0s",
		"tokens: {access: 1h, refresh: 1h}\n":           "",
		"tokens: {refresh: 721h}\n":                     "tokens.refresh is 721h0m0s",
		"defaults: {staleness: 61s}\n":                  "defaults.staleness is 1m1s",
		"defaults: {config_ttl: 61m}\n":                 "defaults.config_ttl is 1h1m0s",
		"aggregation: {every: 25h}\n":                   "aggregation.every is 25h0m0s",
		"prices: {refresh: {every: 721h}}\n":            "prices.refresh.every is 721h0m0s",
		"prices: {default: {'': {input: 1}}}\n":         `"" is no model id`,
		"prices: {default: {' m': {input: 1}}}\n":       `" m" is no model id`,
		"prices: {default: {m: {input: -1}}}\n":         "prices.default.m has a price below zero",
		"prices: {default: {m: {output: -1}}}\n":        "prices.default.m has a price below zero",
		"prices: {default: {m: {cache_read: -1}}}\n":    "prices.default.m has a price below zero",
		"prices: {default: {m: {cache_write_5m: -1}}}":  "prices.default.m has a price below zero",
		"prices: {default: {m: {cache_write_1h: -1}}}":  "prices.default.m has a price below zero",
		"behind_proxy: [10.0.0.0/8, 192.0.2.7]\n":       "",
		"behind_proxy: [proxy.example.com]\n":           `"proxy.example.com" is no network`,
		"behind_proxy: [0.0.0.0/0]\n":                   "0.0.0.0/0 is everybody",
		"behind_proxy: ['::ffff:10.0.0.0/64']\n":        "is no network of IPv4 nor of IPv6",
		"forwarded_header: forwarded\n":                 "",
		"forwarded_header: X-Real-IP\n":                 `forwarded_header "X-Real-IP" is not known`,
	})
}

// TestPricesAreThoseOfTheFile: each rate is where it belongs.
func TestPricesAreThoseOfTheFile(t *testing.T) {
	c, err := Parse("f.yaml", []byte("prices: {default: {b: {input: 1, output: 2, cache_read: 3, cache_write_5m: 4, cache_write_1h: 5}, a: {input: 6}}}\n"))
	require.NoError(t, err)
	rows := c.defaultPrices()
	require.Len(t, rows, 2)
	assert.Equal(t, []string{"a", "b"}, []string{rows[0].Model, rows[1].Model})
	assert.Equal(t, prices.Rates{Input: 1, Output: 2, CacheRead: 3, CacheWrite5m: 4, CacheWrite1h: 5}, rows[1].Rates)
}

// TestProxiesAsTheyAreWritten: a header in any case, a network by any of its addresses, and
// what a proxy of another family or kind writes.
func TestProxiesAsTheyAreWritten(t *testing.T) {
	p, err := newProxies([]string{"10.1.2.3/8"}, "x-forwarded-for")
	require.NoError(t, err)
	from := func(p *proxies, peer, name string, values ...string) string {
		return p.clientAddress(&http.Request{RemoteAddr: peer, Header: http.Header{name: values}}).String()
	}
	assert.Equal(t, "198.51.100.1", from(p, "10.9.9.9:1", forwardedFor, "198.51.100.1"))
	assert.Equal(t, "198.51.100.1", from(p, "10.9.9.9:1", forwardedFor, " 198.51.100.1 , 10.8.8.8"))
	assert.Equal(t, "198.51.100.1", from(p, "10.9.9.9:1", forwardedFor, "[::ffff:198.51.100.1]:77"))
	assert.Equal(t, "fe80::1", from(p, "10.9.9.9:1", forwardedFor, "fe80::1%eth0"))
	assert.Equal(t, "fe80::1", from(p, "10.9.9.9:1", forwardedFor, "[fe80::1%eth0]:77"))
	assert.Equal(t, "fe80::1", from(p, "[fe80::1%eth0]:1", forwardedFor, "198.51.100.1"), "no proxy, and without its link: it is counted once")
	assert.Equal(t, "invalid IP", from(p, "@", forwardedFor, "198.51.100.1"), "a socket without an address")
}
