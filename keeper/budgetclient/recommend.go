package budgetclient

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/money"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

// maxChoices is how many apps' answers are kept.
const maxChoices = 1024

// choices are the answers of Recommend, by app.
type choices struct {
	mu   sync.Mutex
	apps map[string]*choice
}

// choice is the last answer for one app.
type choice struct {
	asking flight[budget.Recommendation]

	mu    sync.Mutex
	last  budget.Recommendation
	known bool
	until time.Time // the answer may be given again before it
}

// of is the choice of an app's path. When there are too many, another is dropped.
func (c *choices) of(path string) *choice {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.apps[path]; found != nil {
		return found
	}
	if c.apps == nil {
		c.apps = map[string]*choice{}
	}
	for other := range c.apps {
		if len(c.apps) < maxChoices {
			break
		}
		delete(c.apps, other)
	}
	made := &choice{}
	c.apps[path] = made
	return made
}

// fresh is the last answer, with what is left of its time; false if that is over.
func (c *choice) fresh(now time.Time) (budget.Recommendation, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known || !now.Before(c.until) {
		return budget.Recommendation{}, false
	}
	rec := c.last
	rec.CacheFor = c.until.Sub(now)
	return copied(rec), true
}

// stale is the last answer, however old.
func (c *choice) stale() (budget.Recommendation, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rec := copied(c.last)
	rec.Stale, rec.CacheFor = true, 0
	return rec, c.known
}

// copied is an answer whose labels are the caller's own.
func copied(rec budget.Recommendation) budget.Recommendation {
	rec.Labels = slices.Clone(rec.Labels)
	return rec
}

func (c *choice) keep(rec budget.Recommendation, asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.known, c.until = rec, true, asked.Add(rec.CacheFor)
}

// outdate makes the next Recommend ask, because what it said no longer holds.
func (c *choice) outdate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = time.Time{}
}

// Recommend says which label an app may use now, as budget.Keeper.Recommend does. An answer
// is given again as long as the keeper allows, at most until the day ends; a record
// that shows that the label has no room ends that. While the keeper does not
// answer, Options.OnUnavailable.Recommend decides.
//
// Errors: *prices.QuotaExceededError, *fault.ValidationError, budget.ErrNotFound,
// *fault.UnavailableError, *StatusError.
func (c *Client) Recommend(ctx context.Context, org, app string) (budget.Recommendation, error) {
	path, err := c.admitted(ctx, org, app)
	if err != nil {
		return budget.Recommendation{}, err
	}
	known := c.choices.of(path)
	if rec, ok := known.fresh(c.opts.Now()); ok {
		return rec, nil
	}
	return c.recommend(ctx, known, path, org, app, "")
}

// RecommendFresh is Recommend by a query of the keeper's store, even if everything is
// known.
func (c *Client) RecommendFresh(ctx context.Context, org, app string) (budget.Recommendation, error) {
	path, err := c.admitted(ctx, org, app)
	if err != nil {
		return budget.Recommendation{}, err
	}
	return c.recommend(ctx, c.choices.of(path), path, org, app, "?force_check=true")
}

func (c *core) recommend(ctx context.Context, known *choice, path, org, app, query string) (budget.Recommendation, error) {
	ask := func(ctx context.Context) (budget.Recommendation, error) {
		if rec, ok := known.fresh(c.opts.Now()); ok && query == "" {
			return rec, nil
		}
		return c.choose(ctx, known, path, org, app, query)
	}
	var rec budget.Recommendation
	var err error
	if query == "" {
		rec, err = known.asking.do(ctx, ask)
	} else {
		rec, err = ask(ctx)
	}
	if err == nil {
		return copied(rec), nil
	}
	if f := (*unanswered)(nil); errors.As(err, &f) { // ctx ended while another asked
		err = unavailable("Recommend", f.err, false, 0)
	}
	if !errors.Is(err, fault.ErrUnavailable) || c.opts.OnUnavailable.Recommend == budget.Refuse || errors.Is(ctx.Err(), context.Canceled) {
		return budget.Recommendation{}, err
	}
	if rec, ok := known.stale(); ok {
		c.opts.Logger.WarnContext(ctx, "budgetclient: recommended what was known last", "error", err)
		return rec, nil
	}
	return budget.Recommendation{}, err
}

// choose asks the keeper.
func (c *core) choose(ctx context.Context, known *choice, path, org, app, query string) (budget.Recommendation, error) {
	var s selection
	asked := c.opts.Now()
	header, err := c.do(ctx, &call{
		op: "Recommend", method: http.MethodGet, path: path + "/model-selection" + query, into: &s,
		check: func() error {
			if s.Org != org || s.App != app || s.Model.Label == "" {
				return errors.New("it is of no selection, or another app's")
			}
			return nil
		},
	})
	if err != nil {
		if errors.Is(err, prices.ErrQuotaExceeded) {
			known.outdate()
		}
		return budget.Recommendation{}, err
	}
	rec := s.recommendation(maxAge(header))
	if !rec.ResetAt.IsZero() {
		rec.CacheFor = max(min(rec.CacheFor, rec.ResetAt.Sub(asked)), 0)
	}
	known.keep(rec, asked)
	return rec, nil
}

// maxAge is how long an answer may be kept; 0 if it does not say.
func maxAge(header http.Header) time.Duration {
	age := time.Duration(0)
	for directive := range strings.SplitSeq(header.Get("Cache-Control"), ",") {
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(directive)), "=")
		if name == "no-store" || name == "no-cache" {
			return 0
		}
		if seconds, err := strconv.ParseInt(value, 10, 32); name == "max-age" && err == nil && seconds > 0 {
			age = time.Duration(seconds) * time.Second
		}
	}
	return age
}

// Estimate is what a call would cost at a label's price now, in µ$, rounded up, as
// budget.Keeper.Estimate says. For the label that was recommended it makes no request as
// long as the recommendation holds.
//
// Errors: *fault.ValidationError, with fault.InvalidModelLabel for a label that is
// not in the app's ordering; budget.ErrNotFound, *fault.UnavailableError, *StatusError.
func (c *Client) Estimate(ctx context.Context, org, app, label string, inputTokens, maxTokens int64) (int64, error) {
	path, err := c.admitted(ctx, org, app)
	if err != nil {
		return 0, err
	}
	if err := (prices.Usage{RequestID: org, Label: label}).Validate(); err != nil { // org is a UUID, too
		return 0, err
	}
	for field, n := range map[string]int64{"tokens.input": inputTokens, "tokens.output": maxTokens} {
		if n < 0 || n > maxTokenCount {
			return 0, invalid(field, "is %d; give 0 to %d", n, int64(maxTokenCount))
		}
	}
	known := c.choices.of(path)
	if rec, ok := known.fresh(c.opts.Now()); ok && rec.Label == label {
		return cost(rec.Price, inputTokens, maxTokens), nil
	}
	var answer struct {
		Label  string `json:"model_label"`
		Micros int64  `json:"estimate_usd_micros"`
	}
	_, err = c.do(ctx, &call{
		op: "Estimate", method: http.MethodGet, into: &answer,
		path: path + "/estimate?model_label=" + url.QueryEscape(label) + "&input_tokens=" + strconv.FormatInt(inputTokens, 10) + "&max_tokens=" + strconv.FormatInt(maxTokens, 10),
		check: func() error {
			if answer.Label != label || answer.Micros < 0 {
				return errors.New("it is of no estimate, or another label's")
			}
			return nil
		},
	})
	if errors.Is(err, fault.ErrUnavailable) && c.opts.OnUnavailable.Recommend != budget.Refuse {
		if rec, ok := known.stale(); ok && rec.Label == label {
			return cost(rec.Price, inputTokens, maxTokens), nil
		}
	}
	return answer.Micros, err
}

const maxTokenCount = 100_000_000 // of one class, as in package budget

func cost(r prices.Rates, input, output int64) int64 {
	return money.Cost(input, r.Input).Add(money.Cost(output, r.Output)).MicrosUp()
}
