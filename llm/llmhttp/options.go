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

// Options say which calls are made, for whom, and how they are estimated. The functions are called
// by many goroutines at once.
type Options struct {
	// Models are all that may be called. It must not be empty.
	Models Models
	// Identify says whose call a request is; what it gives stands for WithCaller's. Its error, and a
	// Caller without an Entity and an App, is answered with 401, whatever is asked; so is a call of an
	// entity without a record if dynalimit.Options.Unrecorded is Refuse. Defaults to nil:
	// the caller of the request's context. Without one, calls are answered with 401, and other
	// requests are nobody's.
	Identify func(*http.Request) (Caller, error)
	// Estimate replaces what a call is admitted by. It is given what the body says: the tokens of
	// its text by the kinds of its bytes, and Unmetered for each part that text does not show.
	// Defaults to nil: that is taken.
	Estimate func(*http.Request, llm.Request) llm.Estimate
	// Unmetered is the most tokens of a part of a prompt that its text does not show: a picture, a
	// file, an earlier response, the result of one use of a tool. Defaults to 2,000; for a limit on
	// money it must be the most.
	Unmetered int64
	// MaxBody is the longest body of a request, in bytes; a longer one is refused with 413. A body
	// is in memory until it is sent. Defaults to 10 MiB.
	MaxBody int64
	// Count leaves the requests of OpenAI's streams as they are: those that do not ask for their
	// usage are counted by what passes, which shows no hidden reasoning. Defaults to false: they
	// are made to ask, and the event with the usage is taken out again. Signed requests are always
	// left as they are.
	Count bool
	// Wait is how long a call may stand in line for its limits. It ends before the deadline of the
	// request's context. Defaults to 0: it is denied at once.
	Wait time.Duration
	// AllowUnmetered names the routes that pass unmetered beside a limit on money (llm.Cost), by
	// their paths. There, requests that are no metered calls are refused with 404, for they may cost
	// something, but for reads such as GET /v1/models. An entry is a whole path, such as "/v1/files",
	// in the case in which it is sent, without a query and without escapes; with "*" at its end it
	// stands for all paths that begin so, and "*" for all. Escapes, "." and ".." of a request are
	// undone before it is compared, and "%2F" as well, for some servers do so: both ways must match.
	// Defaults to none. Without a limit on money all pass, and the first request of each route is
	// logged.
	AllowUnmetered []string
	// Pool names the bucket that all calls with a request's credential charge, in all
	// processes: a parent of the callers. When the provider says stop, it is paused
	// (dynalimit.RateLimiter.Pause). Defaults to nil: this process alone pauses, by credential
	// and model. A 429 that may be about one entity's requests pauses that entity, in this process.
	Pool func(*http.Request) Pool
	// Headers puts X-Ratelimit-Limit, -Remaining and -Reset of the caller's own limit that binds
	// on each answer, in place of the provider's. Defaults to false.
	Headers bool
	// Logger hears of calls that could not be settled or admitted because of a mistake, of pauses,
	// and of routes that pass unmetered. Defaults to nobody.
	Logger *slog.Logger
}

// Pool is a bucket: an entity's, on a resource.
type Pool struct {
	// Entity is whose bucket it is.
	Entity string
	// Resource is what the bucket is for.
	Resource string
}

// Models are the models that may be called, as they are named on the wire. A name that ends in "*"
// stands for all that begin so; of several the longest holds. What is not here is refused, for
// else each invented name had a bucket of its own.
type Models map[string]Model

// Model is what a model on the wire is to limits and prices.
type Model struct {
	// Resource is what the limits are on. Defaults to the name in Models, which must be one then:
	// without "*".
	Resource string
	// Priced is the id that the prices have. Defaults to the name on the wire.
	Priced string
	// Label is the budget's label for the model, for callers with an App. Defaults to none.
	Label string
	// Tier is the service tier, or the place, that serves calls which name none, as the provider's
	// project is set up, such as "priority". Only limits on money look at it. Defaults to the
	// standard one.
	Tier string
	// MaxOutput is the most tokens of a reply whose request does not bound it. Defaults to 0:
	// nobody knows. Limits on tokens are charged 4,096 for such a reply before the call, and a
	// limit on money refuses it.
	MaxOutput int64
}

const (
	likelyOutput     = 4_096
	defaultUnmetered = 2_000
	defaultMaxBody   = 10 << 20
	mostUnmetered    = 10_000_000
)

// find is the model of a name on the wire.
func (m Models) find(name string) (Model, bool) {
	model, ok := m[name]
	if !ok {
		longest := -1
		for pattern, of := range m {
			if len(pattern) > longest && matches(pattern, name) {
				longest, model, ok = len(pattern), of, true
				model.Resource = cmp.Or(of.Resource, pattern)
			}
		}
	}
	model.Resource, model.Priced = cmp.Or(model.Resource, name), cmp.Or(model.Priced, name)
	return model, ok
}

func (o *Options) validate() error {
	if len(o.Models) == 0 {
		return invalid("options.Models", "is empty; name the models that may be called, such as llmhttp.Models{\"gpt-4.1\": {}}")
	}
	for name, m := range o.Models {
		field := fmt.Sprintf("options.Models[%q]", name)
		if reason := schema.CheckResource(cmp.Or(m.Resource, name)); reason != "" {
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

func (o Options) withDefaults() Options {
	o.Unmetered = cmp.Or(o.Unmetered, defaultUnmetered)
	o.MaxBody = cmp.Or(o.MaxBody, defaultMaxBody)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func invalid(field, format string, args ...any) *dynalimit.ValidationError {
	return &dynalimit.ValidationError{Package: "llmhttp", Field: field, Code: fault.InvalidRequest, Reason: fmt.Sprintf(format, args...)}
}
