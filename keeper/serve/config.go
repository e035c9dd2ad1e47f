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

// Config is how a keeper serves. Default has what its fields name as defaults.
type Config struct {
	// Listen is the address of the API. Defaults to 127.0.0.1:8080.
	Listen string `yaml:"listen"`
	// Metrics is the address of metrics, /live and /ready; "off" for none. Defaults to
	// 127.0.0.1:9090.
	Metrics string `yaml:"metrics"`
	// TLS has the files of a certificate. Defaults to none.
	TLS TLS `yaml:"tls"`
	// BehindProxy are the networks of proxies that speak TLS with the clients, and are
	// believed about their addresses. Defaults to none.
	BehindProxy []string `yaml:"behind_proxy"`
	// ForwardedHeader is the header in which the proxies put the client's address:
	// X-Forwarded-For or Forwarded. Defaults to X-Forwarded-For.
	ForwardedHeader string `yaml:"forwarded_header"`
	// CORSOrigins are the origins whose pages may ask from a browser. Defaults to none.
	CORSOrigins []string `yaml:"cors_origins"`
	// Keyset is the file of keys, or "secretsmanager:" and the name or ARN of a secret. It is
	// read again while the keeper runs. Defaults to none: they are in the environment.
	Keyset string `yaml:"keyset"`
	// Spool is a file of this process alone, which keeps usage while DynamoDB does not take
	// it. Defaults to none: then such usage is refused.
	Spool string `yaml:"spool"`
	// Metering says whether usage always waits Linger for further usage (batch), or only while a
	// transaction of its counters is in flight or began less than Linger ago (strict). Defaults to
	// strict.
	Metering Metering `yaml:"metering"`
	// Linger is how long usage waits for further usage to share its transaction, where
	// such queues up; 1 ms to 1 s. Longer costs fewer write units, and later answers.
	// Defaults to 2 ms; in batch metering, which always waits, to 40 ms.
	Linger *Span `yaml:"linger"`
	// OnUnavailable says what is answered while DynamoDB does not.
	OnUnavailable OnUnavailable `yaml:"on_unavailable"`
	// ImportedHashes says that clients may have bcrypt hashes of another system
	// (credentials.Store.Import). Then each failed login takes the time of bcrypt, also of
	// clients that have none, or nobody's. Defaults to false: such hashes fit no secret.
	ImportedHashes bool `yaml:"imported_hashes"`
	// Shutdown says how the keeper ends.
	Shutdown Shutdown `yaml:"shutdown"`
	// Tokens says for how long clients are logged in.
	Tokens Tokens `yaml:"tokens"`
	// Defaults hold where an organisation's configuration says nothing.
	Defaults Defaults `yaml:"defaults"`
	// Prices are those of models, and where new ones come from.
	Prices Prices `yaml:"prices"`
	// Aggregation says how often days are closed.
	Aggregation Aggregation `yaml:"aggregation"`
}

// TLS is where a certificate is. The files are read once, at the start.
type TLS struct {
	// Cert is the file of the certificate with those that sign it, Key that of its key.
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// OnUnavailable says what is answered while DynamoDB does not: allow or refuse.
type OnUnavailable struct {
	// Recommend defaults to allow: the last choice, marked stale.
	Recommend Policy `yaml:"recommend"`
	// Submit defaults to allow where there is a spool, else to refuse.
	Submit Policy `yaml:"submit"`
}

// Shutdown says how a keeper ends.
type Shutdown struct {
	// Delay is how long requests are taken on after /ready says no, so that a load
	// balancer notices. Defaults to none.
	Delay Span `yaml:"delay"`
	// Time is how long requests under way, and what they have to write, may take.
	// Defaults to 20 s.
	Time Span `yaml:"time"`
}

// Tokens says how long tokens are good.
type Tokens struct {
	// Access is how long an access token is good. Defaults to 1 h.
	Access Span `yaml:"access"`
	// Refresh is how long a refresh token is good. Defaults to 7 days.
	Refresh Span `yaml:"refresh"`
	// Issuer is their iss. Defaults to dynalimit.
	Issuer string `yaml:"issuer"`
	// Audience is their aud. Defaults to budget.
	Audience string `yaml:"audience"`
}

// Defaults hold for organisations that say nothing else.
type Defaults struct {
	// Models are model ids by label.
	Models map[string]string `yaml:"models"`
	// Staleness is how old a known spend may be. Defaults to 5 s.
	Staleness Span `yaml:"staleness"`
	// ConfigTTL is how long a configuration is used unread. Defaults to 30 s.
	ConfigTTL Span `yaml:"config_ttl"`
}

// Prices are those of models, and where new ones come from.
type Prices struct {
	// Default are prices by model id, which come after stored ones and before those built
	// in. Defaults to none.
	Default map[string]Rates `yaml:"default"`
	// Refresh has prices imported again and again. Defaults to not at all.
	Refresh Refresh `yaml:"refresh"`
}

// Rates are a model's prices, in µ$ per million tokens, as prices.Rates has them.
type Rates struct {
	// Input is the price of what is sent, Output of what is answered.
	Input  Micros `yaml:"input"`
	Output Micros `yaml:"output"`
	// CacheRead, CacheWrite5m and CacheWrite1h are those of caches; 0 for what follows
	// from Input.
	CacheRead    Micros `yaml:"cache_read"`
	CacheWrite5m Micros `yaml:"cache_write_5m"`
	CacheWrite1h Micros `yaml:"cache_write_1h"`
}

// Refresh says where a price list is.
type Refresh struct {
	// From is a file or a URL. Defaults to none: no refresh.
	From string `yaml:"from"`
	// Every is the time between two refreshes, at least a minute. Defaults to a day.
	Every Span `yaml:"every"`
	// Providers are those whose models are taken, as the list names them. Defaults to those
	// of the catalogue.
	Providers []string `yaml:"providers"`
}

// Aggregation says when days are closed.
type Aggregation struct {
	// Off has another process do it: `dynalimit budget sweep`.
	Off bool `yaml:"off"`
	// Every is the time between two sweeps, at least a second. Defaults to a minute.
	Every Span `yaml:"every"`
}

// Default is the configuration where nothing is said.
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

// defaultLinger answers 99 of 100 submissions in 2 ms more than what the store takes, under any
// load that the processor keeps up with.
const defaultLinger = Span(2 * time.Millisecond)

// linger is what Linger says, or the default of the metering; 0 is the library's.
func (c Config) linger() Span {
	if c.Linger == nil && budget.Metering(c.Metering) == budget.MeteringBatch { // which is chosen for its cost
		return 0
	}
	return *cmp.Or(c.Linger, new(defaultLinger))
}

// noMetrics is what Config.Metrics is for no such address.
const noMetrics = "off"

// Check says what cannot be meant, by the names that the file has; flags are called alike.
func (c Config) Check() error {
	return cmp.Or(
		c.checkAddresses(), c.checkTLS(), c.checkProxies(), c.checkOrigins(), c.checkTimes(), c.checkNames(), c.checkRates(), c.checkSpool(),
	)
}

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

// checkTLS refuses to send secrets over a network as they are.
func (c Config) checkTLS() error {
	switch {
	case (c.TLS.Cert == "") != (c.TLS.Key == ""):
		return errors.New("TLS needs both a certificate and its key: give --tls-cert and --tls-key")
	case c.TLS.Cert == "" && len(c.BehindProxy) == 0 && !loopback(c.Listen):
		return fmt.Errorf("listen %s is not this machine alone, and secrets would be sent as they are: "+
			"give --tls-cert and --tls-key, or --behind-proxy with the networks of the proxies that speak TLS", c.Listen)
	}
	return nil
}

// loopback reports whether an address is reached from this machine alone.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (c Config) checkProxies() error {
	if _, err := newProxies(c.BehindProxy, c.ForwardedHeader); err != nil {
		return err
	}
	return nil
}

func (c Config) checkOrigins() error {
	for _, origin := range c.CORSOrigins {
		if !isOrigin(origin) {
			return fmt.Errorf("cors_origins: %q is no origin as browsers send it: write it like https://console.example.com, in lower case and without :443 or :80", origin)
		}
	}
	return nil
}

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

// checkNames refuses tokens that say of nobody whose they are.
func (c Config) checkNames() error {
	for _, n := range []struct{ name, value string }{{"tokens.issuer", c.Tokens.Issuer}, {"tokens.audience", c.Tokens.Audience}} {
		if strings.TrimSpace(n.value) == "" {
			return fmt.Errorf("%s is empty: give a name, or leave it out", n.name)
		}
	}
	return nil
}

// checkSpool refuses what would lose usage.
func (c Config) checkSpool() error {
	if c.Spool == "" && budget.Policy(c.OnUnavailable.Submit) == budget.Allow {
		return errors.New("on_unavailable.submit: allow would lose usage without a spool: give --spool FILE")
	}
	return nil
}

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

// prices are the default prices, as a keeper takes them.
func (c Config) prices() []prices.Price {
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
