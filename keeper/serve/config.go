package keeper

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

// Config configures the serving of a keeper. Default returns the defaults.
type Config struct {
	// Listen is the address of the API. Defaults to 127.0.0.1:8080.
	Listen string `yaml:"listen"`
	// Metrics is the address of /metrics, /live and /ready, or "off". Defaults to
	// 127.0.0.1:9090.
	Metrics string `yaml:"metrics"`
	// TLS is the certificate files. Defaults to none.
	TLS TLS `yaml:"tls"`
	// BehindProxy are the networks of trusted proxies, which speak TLS with the clients and
	// report their addresses. Defaults to none.
	BehindProxy []string `yaml:"behind_proxy"`
	// ForwardedHeader is the header with the client's address: X-Forwarded-For or Forwarded.
	// Defaults to X-Forwarded-For.
	ForwardedHeader string `yaml:"forwarded_header"`
	// CORSOrigins are the origins whose pages may send requests from a browser. Defaults to
	// none.
	CORSOrigins []string `yaml:"cors_origins"`
	// Keyset is the file of keys, or "secretsmanager:" followed by the name or ARN of a secret.
	// The keeper reads it periodically. Defaults to none: the keys are in the environment.
	Keyset string `yaml:"keyset"`
	// Spool is a file, used by this process only, for usage that DynamoDB does not accept.
	// Defaults to none: then such usage is refused.
	Spool string `yaml:"spool"`
	// Metering is batch if usage always waits Linger for further usage. It is strict if usage
	// waits only while a transaction of its counters is in flight or began less than Linger
	// ago. Defaults to strict.
	Metering Metering `yaml:"metering"`
	// Linger is how long usage waits for further usage to share its transaction, 1 ms to 1 s. A
	// longer time costs fewer write units and delays responses. Defaults to 2 ms, and to 40 ms
	// with batch metering.
	Linger *Span `yaml:"linger"`
	// OnUnavailable configures the responses while DynamoDB does not answer.
	OnUnavailable OnUnavailable `yaml:"on_unavailable"`
	// ImportedHashes is true if clients may have bcrypt hashes of another system
	// (credentials.Store.Import). Then each failed login takes the time of bcrypt, even for
	// clients without such a hash. Defaults to false: such hashes match no secret.
	ImportedHashes bool `yaml:"imported_hashes"`
	// Shutdown configures the end of the keeper.
	Shutdown Shutdown `yaml:"shutdown"`
	// Tokens configures the tokens of logins.
	Tokens Tokens `yaml:"tokens"`
	// Defaults apply to organisations without their own values.
	Defaults Defaults `yaml:"defaults"`
	// Prices are the default prices, and the source of new ones.
	Prices Prices `yaml:"prices"`
	// Aggregation configures the closing of days.
	Aggregation Aggregation `yaml:"aggregation"`
}

// TLS is the files of a certificate. They are read once, at the start.
type TLS struct {
	// Cert is the file of the certificate with its chain, Key the file of its key.
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// OnUnavailable configures the responses while DynamoDB does not answer: allow or refuse.
type OnUnavailable struct {
	// Recommend defaults to allow: the last choice, marked stale.
	Recommend Policy `yaml:"recommend"`
	// Submit defaults to allow with a spool, else to refuse.
	Submit Policy `yaml:"submit"`
}

// Shutdown configures the end of a keeper.
type Shutdown struct {
	// Delay is how long the keeper accepts requests after /ready has turned negative, so that a
	// load balancer notices. Defaults to 0.
	Delay Span `yaml:"delay"`
	// Time is the maximal time for pending requests and writes. Defaults to 20 s.
	Time Span `yaml:"time"`
}

// Tokens configures the tokens of logins.
type Tokens struct {
	// Access is the life of access tokens. Defaults to 1 h.
	Access Span `yaml:"access"`
	// Refresh is the life of refresh tokens. Defaults to 7 days.
	Refresh Span `yaml:"refresh"`
	// Issuer is their iss. Defaults to dynalimit.
	Issuer string `yaml:"issuer"`
	// Audience is their aud. Defaults to budget.
	Audience string `yaml:"audience"`
}

// Defaults apply to organisations without their own values.
type Defaults struct {
	// Models maps labels to model ids.
	Models map[string]string `yaml:"models"`
	// Staleness is the maximal age of a known spend. Defaults to 5 s.
	Staleness Span `yaml:"staleness"`
	// ConfigTTL is how long a configuration may be used before it is read again. Defaults to 30
	// s.
	ConfigTTL Span `yaml:"config_ttl"`
}

// Prices are the default prices, and the source of new ones.
type Prices struct {
	// Default maps model ids to prices. Stored prices take precedence over them, and they take
	// precedence over built-in ones. Defaults to none.
	Default map[string]Rates `yaml:"default"`
	// Refresh configures a periodic import of prices. Defaults to none.
	Refresh Refresh `yaml:"refresh"`
}

// Rates is a model's prices in µ$ per million tokens, as in prices.Rates.
type Rates struct {
	// Input is the price of input tokens, Output of output tokens.
	Input  Micros `yaml:"input"`
	Output Micros `yaml:"output"`
	// CacheRead, CacheWrite5m and CacheWrite1h are the prices of cached tokens. 0 derives them
	// from Input.
	CacheRead    Micros `yaml:"cache_read"`
	CacheWrite5m Micros `yaml:"cache_write_5m"`
	CacheWrite1h Micros `yaml:"cache_write_1h"`
}

// Refresh configures the import of a price list.
type Refresh struct {
	// From is a file or a URL. Defaults to "": no import.
	From string `yaml:"from"`
	// Every is the time between two imports, at least a minute. Defaults to a day.
	Every Span `yaml:"every"`
	// Providers are the providers, named as in the list, whose models to import. Defaults to
	// those of the catalogue.
	Providers []string `yaml:"providers"`
}

// Aggregation configures the closing of days.
type Aggregation struct {
	// Off leaves it to another process: `dynalimit budget sweep`.
	Off bool `yaml:"off"`
	// Every is the time between two sweeps, at least a second. Defaults to a minute.
	Every Span `yaml:"every"`
}

// Default returns the default configuration.
func Default() Config {
	return Config{
		Listen: "127.0.0.1:8080", Metrics: "127.0.0.1:9090", ForwardedHeader: forwardedFor,
		Shutdown:    Shutdown{Time: Span(20 * time.Second)},
		Tokens:      Tokens{Access: Span(time.Hour), Refresh: Span(7 * 24 * time.Hour), Issuer: "dynalimit", Audience: "budget"},
		Defaults:    Defaults{Staleness: Span(5 * time.Second), ConfigTTL: Span(30 * time.Second)},
		Prices:      Prices{Refresh: Refresh{Every: Span(24 * time.Hour)}},
		Aggregation: Aggregation{Every: Span(time.Minute)},
	}
}

// defaultLinger adds at most 2 ms to 99 of 100 submissions, under any load that the processor
// can handle.
const defaultLinger = Span(2 * time.Millisecond)

// lingerOrDefault returns Linger if it is set. Otherwise it returns 2 ms, or 0 with batch metering, for which
// package budget has its own default.
func (c Config) lingerOrDefault() Span {
	if c.Linger == nil && budget.Metering(c.Metering) == budget.MeteringBatch { // batch is chosen for its cost
		return 0
	}
	return *cmp.Or(c.Linger, new(defaultLinger))
}

// noMetrics is the value of Config.Metrics that turns metrics off.
const noMetrics = "off"

// Check returns the first error of the configuration, or nil. Its errors use the names of the file's keys,
// which equal those of the flags.
func (c Config) Check() error {
	return cmp.Or(
		c.checkAddresses(), c.checkTLS(), c.checkProxies(), c.checkOrigins(), c.checkTimes(), c.checkNames(), c.checkRates(), c.checkSpool(),
	)
}

// checkAddresses returns an error unless Listen is host:port, and Metrics is host:port or "off". It opens no
// listener.
func (c Config) checkAddresses() error {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("listen %q is no address: write it like 127.0.0.1:8080", c.Listen)
	}
	if c.Metrics == noMetrics {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Metrics); err != nil {
		return fmt.Errorf("metrics %q is no address: write it like 127.0.0.1:9090, or off", c.Metrics)
	}
	return nil
}

// checkTLS returns an error if only one of certificate and key is set. It also returns one if secrets would be
// sent unencrypted: without certificate and proxy on an address that other machines reach.
func (c Config) checkTLS() error {
	switch {
	case (c.TLS.Cert == "") != (c.TLS.Key == ""):
		return errors.New("TLS needs both a certificate and its key: give --tls-cert and --tls-key")
	case c.TLS.Cert == "" && len(c.BehindProxy) == 0 && !isLoopback(c.Listen):
		return fmt.Errorf("listen %s is not this machine alone, and secrets would be sent as they are: "+
			"give --tls-cert and --tls-key, or --behind-proxy with the networks of the proxies that speak TLS", c.Listen)
	}
	return nil
}

// isLoopback reports whether the host of address, host:port, is localhost or a loopback IP. It is false for a
// malformed address and for every other name; it resolves nothing.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// checkProxies returns the error of newProxies for the trusted networks and the header, or nil if both are
// valid.
func (c Config) checkProxies() error {
	if _, err := newProxies(c.BehindProxy, c.ForwardedHeader); err != nil {
		return err
	}
	return nil
}

// checkOrigins returns an error unless every CORS origin has the form that browsers send.
func (c Config) checkOrigins() error {
	for _, origin := range c.CORSOrigins {
		if !isOrigin(origin) {
			return fmt.Errorf("cors_origins: %q is no origin as browsers send it: write it like https://console.example.com, in lower case and without :443 or :80", origin)
		}
	}
	return nil
}

// checkTimes returns an error that names the first duration outside its range, or nil. Refresh tokens with a
// shorter life than access tokens are an error too.
func (c Config) checkTimes() error {
	for _, d := range []struct {
		name        string
		value       Span
		least, most time.Duration
	}{
		{"shutdown.delay", c.Shutdown.Delay, 0, 5 * time.Minute},
		{"shutdown.time", c.Shutdown.Time, time.Second, 15 * time.Minute},
		{"tokens.access", c.Tokens.Access, time.Second, 24 * time.Hour},
		{"tokens.refresh", c.Tokens.Refresh, time.Second, 30 * 24 * time.Hour},
		{"linger", *cmp.Or(c.Linger, new(defaultLinger)), time.Millisecond, time.Second},
		{"defaults.staleness", c.Defaults.Staleness, time.Millisecond, time.Minute},
		{"defaults.config_ttl", c.Defaults.ConfigTTL, time.Millisecond, time.Hour},
		{"aggregation.every", c.Aggregation.Every, time.Second, 24 * time.Hour},
		{"prices.refresh.every", c.Prices.Refresh.Every, time.Minute, 30 * 24 * time.Hour},
	} {
		if v := time.Duration(d.value); v < d.least || v > d.most {
			return fmt.Errorf("%s is %v: give %v to %v", d.name, v, d.least, d.most)
		}
	}
	if t := c.Tokens; t.Refresh < t.Access {
		return fmt.Errorf("tokens.refresh is %v, and tokens.access %v: give refresh tokens at least as long", time.Duration(t.Refresh), time.Duration(t.Access))
	}
	return nil
}

// checkNames returns an error if the issuer or the audience of tokens is empty or blank, else nil.
func (c Config) checkNames() error {
	for _, n := range []struct{ name, value string }{{"tokens.issuer", c.Tokens.Issuer}, {"tokens.audience", c.Tokens.Audience}} {
		if strings.TrimSpace(n.value) == "" {
			return fmt.Errorf("%s is empty: give a name, or leave it out", n.name)
		}
	}
	return nil
}

// checkSpool returns an error if on_unavailable.submit is allow without a spool, because usage would be lost
// during an outage. Otherwise it returns nil.
func (c Config) checkSpool() error {
	if c.Spool == "" && budget.Policy(c.OnUnavailable.Submit) == budget.Allow {
		return errors.New("on_unavailable.submit: allow would lose usage without a spool: give --spool FILE")
	}
	return nil
}

// checkRates returns an error for a default price with a negative rate, or with a model id that is empty or has
// spaces around it. Otherwise it returns nil.
func (c Config) checkRates() error {
	for _, model := range slices.Sorted(maps.Keys(c.Prices.Default)) {
		r := c.Prices.Default[model]
		if model == "" || strings.TrimSpace(model) != model {
			return fmt.Errorf("prices.default: %q is no model id", model)
		}
		if min(r.Input, r.Output, r.CacheRead, r.CacheWrite5m, r.CacheWrite1h) < 0 {
			return fmt.Errorf("prices.default.%s has a price below zero: give µ$ per million tokens", model)
		}
	}
	return nil
}

// defaultPrices returns the default prices of the configuration for the keeper, in µ$ per million tokens,
// sorted by model, with the configuration as their source. It returns nil without any.
func (c Config) defaultPrices() []prices.Price {
	var out []prices.Price
	for _, model := range slices.Sorted(maps.Keys(c.Prices.Default)) {
		r := c.Prices.Default[model]
		out = append(out, prices.Price{Model: model, Source: "the keeper's configuration", Rates: prices.Rates{
			Input: int64(r.Input), Output: int64(r.Output),
			CacheRead: int64(r.CacheRead), CacheWrite5m: int64(r.CacheWrite5m), CacheWrite1h: int64(r.CacheWrite1h),
		}})
	}
	return out
}
