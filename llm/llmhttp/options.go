package llmhttp

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/llm"
)

// Options configure the models, the callers and the estimates of calls. The functions must be
// safe for concurrent use.
type Options struct {
	// Models are the callable models. It must not be empty.
	Models Models
	// Identify returns the caller of a request. It overrides WithCaller. Its error, and a
	// Caller without an Entity and an App, is answered with 401 for every request; so is a call of an
	// entity without a record if dynalimit.Options.Unrecorded is RefuseUnrecorded. Defaults to nil:
	// the caller of the request's context. Without that, calls are answered with 401, and other
	// requests have no caller.
	Identify func(*http.Request) (Caller, error)
	// Estimate replaces the estimate of a call. It receives the estimate from the body: the tokens of
	// its text by the kinds of its bytes, and Unmetered for each part that text does not show.
	// Defaults to nil: the body's estimate.
	Estimate func(*http.Request, llm.Request) llm.Estimate
	// Unmetered is the most tokens of a part of a prompt that its text does not show: a picture, a
	// file, an earlier response, the result of one use of a tool. Defaults to 2,000; for a limit on
	// money it must be a true upper bound.
	Unmetered int64
	// MaxBody is the longest body of a request, in bytes; a longer one is refused with 413. A body
	// is in memory until it is sent. Defaults to 10 MiB.
	MaxBody int64
	// Count leaves the requests of OpenAI's streams unchanged. Streams without a requested
	// usage are then counted as they pass, which misses hidden reasoning. Defaults to false: the
	// transport requests the usage and removes its event from the stream. Signed requests are always
	// left unchanged.
	Count bool
	// Wait is the longest wait of a call in line for its limits. It ends before the deadline of the
	// request's context. Defaults to 0: the call is denied at once.
	Wait time.Duration
	// AllowUnmetered names the paths of the routes that pass unmetered beside a limit on money
	// (llm.Cost). There, other requests than metered calls are refused with 404, because they may cost
	// money, except for reads such as GET /v1/models. An entry is a whole path, such as "/v1/files",
	// in the case in which it is sent, without a query and without escapes; with "*" at its end it
	// matches all paths with that beginning, and "*" matches all. The transport removes escapes, "." and
	// ".." of a request before it compares, and also "%2F", which some servers decode: both forms must match.
	// Defaults to nil: no routes. Without a limit on money all pass, and the first request of each route is
	// logged.
	AllowUnmetered []string
	// Pool names the bucket that all calls with a request's credential charge, in all
	// processes: a parent of the callers. A provider that says stop pauses it
	// (dynalimit.RateLimiter.Pause). Defaults to nil: this process alone pauses, by credential
	// and model. A 429 that may be about one entity's requests pauses that entity, in this process.
	Pool func(*http.Request) Pool
	// Headers puts X-Ratelimit-Limit, -Remaining and -Reset of the caller's own tightest limit
	// on each answer, in place of the provider's. With a limit on money it adds the dollars left as
	// X-Ratelimit-Remaining-Usd. Defaults to false.
	Headers bool
	// Logger logs calls that could not be settled or admitted because of a mistake, pauses,
	// and unmetered routes. Defaults to nil: no log.
	Logger *slog.Logger
}

// Pool is a bucket: an entity's, on a resource.
type Pool struct {
	// Entity is the bucket's entity.
	Entity string
	// Resource is the bucket's resource.
	Resource string
}

// Models are the callable models by their names on the wire. A name that ends in "*"
// matches all with that beginning; of several the longest holds. Other models are refused, because
// otherwise each invented name would have a bucket of its own.
type Models map[string]Model

// Model describes a model on the wire for limits and prices.
type Model struct {
	// Resource is the resource of the limits. Defaults to the name in Models, which must then have
	// no "*".
	Resource string
	// Priced is the id of the price. Defaults to the name on the wire.
	Priced string
	// Label is the budget's label for the model, for callers with an App. Defaults to none.
	Label string
	// Tier is the service tier, or the place, of calls that name none, as the provider's
	// project is set up, such as "priority". Only limits on money use it. Defaults to the
	// standard one.
	Tier string
	// MaxOutput is the most tokens of a reply without a bound in its request. Defaults to 0,
	// unknown: limits on tokens are charged 4,096 for such a reply before the call, and a
	// limit on money refuses it.
	MaxOutput int64
}

const (
	likelyOutput     = 4_096
	defaultUnmetered = 2_000
	defaultMaxBody   = 10 << 20
	mostUnmetered    = 10_000_000
)

// findModel returns the model of a name on the wire: its own entry, or that of the longest matching pattern. It
// fills in the defaults of Resource (a matching pattern, else the name) and Priced (the name). It returns false
// for an unknown name.
func (m Models) findModel(name string) (Model, bool) {
	model, ok := m[name]
	if !ok {
		longest := -1
		for pattern, of := range m {
			if len(pattern) > longest && matchesPattern(pattern, name) {
				longest, model, ok = len(pattern), of, true
				model.Resource = cmp.Or(of.Resource, pattern)
			}
		}
	}
	model.Resource, model.Priced = cmp.Or(model.Resource, name), cmp.Or(model.Priced, name)
	return model, ok
}

// validate returns a *ValidationError for options without models, with an invalid resource or route, or with a
// number outside its range.
func (o *Options) validate() error {
	if len(o.Models) == 0 {
		return invalid("options.Models", "is empty; name the models that may be called, such as llmhttp.Models{\"gpt-4.1\": {}}")
	}
	for name, m := range o.Models {
		field := fmt.Sprintf("options.Models[%q]", name)
		if reason := schema.ResourceRule.Check(cmp.Or(m.Resource, name)); reason != "" {
			return invalid(field+".Resource", "%s", reason)
		}
		if m.MaxOutput < 0 || m.MaxOutput > mostUnmetered {
			return invalid(field+".MaxOutput", "is %d; give 1 to %d, or 0 for the default", m.MaxOutput, mostUnmetered)
		}
	}
	switch {
	case o.Unmetered < 0 || o.Unmetered > mostUnmetered:
		return invalid("options.Unmetered", "is %d; give 1 to %d, or 0 for the default", o.Unmetered, mostUnmetered)
	case o.MaxBody < 0 || o.MaxBody > 1<<30:
		return invalid("options.MaxBody", "is %d; give 1 to %d bytes, or 0 for the default", o.MaxBody, 1<<30)
	case o.Wait < 0:
		return invalid("options.Wait", "is %v; give a positive duration, or 0 not to wait", o.Wait)
	}
	return checkRoutes(o.AllowUnmetered)
}

// withDefaults returns the options with their defaults filled in, and a logger that drops everything if none
// is set.
func (o Options) withDefaults() Options {
	o.Unmetered = cmp.Or(o.Unmetered, defaultUnmetered)
	o.MaxBody = cmp.Or(o.MaxBody, defaultMaxBody)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// invalid returns the *ValidationError of a field, with a formatted reason.
func invalid(field, format string, args ...any) *dynalimit.ValidationError {
	return &dynalimit.ValidationError{Package: "llmhttp", Field: field, Code: fault.InvalidRequest, Reason: fmt.Sprintf(format, args...)}
}
