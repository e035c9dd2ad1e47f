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

// maxChoices is the maximal number of cached answers.
const maxChoices = 1024

// choices caches the answers of Recommend by app.
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
	until time.Time // end of the time for which the answer may be repeated
}

// choiceFor returns the cached answers of the app with this path, or caches an empty entry. With maxChoices
// entries it evicts any other one first.
func (c *choices) choiceFor(path string) *choice {
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

// freshAnswer returns a copy of the last recommendation with the remaining time in CacheFor. It returns false
// without one, and if that time has passed at now.
func (c *choice) freshAnswer(now time.Time) (budget.Recommendation, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known || !now.Before(c.until) {
		return budget.Recommendation{}, false
	}
	rec := c.last
	rec.CacheFor = c.until.Sub(now)
	return copyLabels(rec), true
}

// staleAnswer returns a copy of the last recommendation, however old, with Stale set and CacheFor 0, for an
// outage of the keeper. It returns false if there never was one.
func (c *choice) staleAnswer() (budget.Recommendation, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rec := copyLabels(c.last)
	rec.Stale, rec.CacheFor = true, 0
	return rec, c.known
}

// copyLabels returns rec with a copy of its Labels, so that a caller cannot change the cached answer.
func copyLabels(rec budget.Recommendation) budget.Recommendation {
	rec.Labels = slices.Clone(rec.Labels)
	return rec
}

// storeAnswer replaces the cached recommendation by rec. It stays fresh for rec.CacheFor from asked, the
// instant of the request, and usable as a stale answer afterwards.
func (c *choice) storeAnswer(rec budget.Recommendation, asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.known, c.until = rec, true, asked.Add(rec.CacheFor)
}

// expireAnswer marks the cached recommendation as expired, so that the next Recommend asks the keeper. It stays
// usable as a stale answer.
func (c *choice) expireAnswer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = time.Time{}
}

// Recommend returns the label that an app may use now, as budget.Keeper.Recommend does. It
// repeats an answer as long as the keeper allows, at most until the day ends or a receipt shows
// that the label has no room. Options.OnUnavailable.Recommend decides about a keeper that does
// not answer.
//
// Errors: *prices.QuotaExceededError, *fault.ValidationError, budget.ErrNotFound,
// *fault.UnavailableError, *StatusError.
func (c *Client) Recommend(ctx context.Context, org, app string) (budget.Recommendation, error) {
	path, err := c.appPath(ctx, org, app)
	if err != nil {
		return budget.Recommendation{}, err
	}
	known := c.choices.choiceFor(path)
	if rec, ok := known.freshAnswer(c.opts.Now()); ok {
		return rec, nil
	}
	return c.recommendLabel(ctx, known, path, org, app, "")
}

// RecommendFresh is Recommend without the cached answer: the keeper reads its store again, as
// budget.Keeper.RecommendFresh does. The new answer is cached.
func (c *Client) RecommendFresh(ctx context.Context, org, app string) (budget.Recommendation, error) {
	path, err := c.appPath(ctx, org, app)
	if err != nil {
		return budget.Recommendation{}, err
	}
	return c.recommendLabel(ctx, c.choices.choiceFor(path), path, org, app, "?force_check=true")
}

// recommendLabel asks the keeper for a recommendation and caches it. Without a query it returns a fresh cached
// answer, and concurrent calls share one request. During an outage it returns the last answer as Stale and logs
// that, if the policy permits it.
func (c *core) recommendLabel(ctx context.Context, known *choice, path, org, app, query string) (budget.Recommendation, error) {
	ask := func(ctx context.Context) (budget.Recommendation, error) {
		if rec, ok := known.freshAnswer(c.opts.Now()); ok && query == "" {
			return rec, nil
		}
		return c.askKeeper(ctx, known, path, org, app, query)
	}
	var rec budget.Recommendation
	var err error
	if query == "" {
		rec, err = known.asking.share(ctx, ask)
	} else {
		rec, err = ask(ctx)
	}
	if err == nil {
		return copyLabels(rec), nil
	}
	if f := (*noResponse)(nil); errors.As(err, &f) { // ctx ended while another caller asked
		err = unavailable("Recommend", f.err, false, 0)
	}
	if !errors.Is(err, fault.ErrUnavailable) || c.opts.OnUnavailable.Recommend == budget.Refuse || errors.Is(ctx.Err(), context.Canceled) {
		return budget.Recommendation{}, err
	}
	if rec, ok := known.staleAnswer(); ok {
		c.opts.Logger.WarnContext(ctx, "budgetclient: recommended the last known model", "error", err)
		return rec, nil
	}
	return budget.Recommendation{}, err
}

// askKeeper requests an app's recommendation and stores it in known, fresh until its max-age or the day ends.
// If the keeper says that no label has room, it expires the stored one. Another app's answer counts as no
// response.
func (c *core) askKeeper(ctx context.Context, known *choice, path, org, app, query string) (budget.Recommendation, error) {
	var s selection
	asked := c.opts.Now()
	header, err := c.doCall(ctx, &call{
		op: "Recommend", method: http.MethodGet, path: path + "/model-selection" + query, into: &s,
		check: func() error {
			if s.Org != org || s.App != app || s.Model.Label == "" {
				return errors.New("it holds no selection, or another app's")
			}
			return nil
		},
	})
	if err != nil {
		if errors.Is(err, prices.ErrQuotaExceeded) {
			known.expireAnswer()
		}
		return budget.Recommendation{}, err
	}
	rec := s.asRecommendation(maxAge(header))
	if !rec.ResetAt.IsZero() {
		rec.CacheFor = max(min(rec.CacheFor, rec.ResetAt.Sub(asked)), 0)
	}
	known.storeAnswer(rec, asked)
	return rec, nil
}

// maxAge returns how long a response may be cached, by the max-age of its Cache-Control header. It is 0 without
// a positive one, and with no-store or no-cache.
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

// Estimate returns the cost of a call at a label's price now, in µ$, rounded up, as
// budget.Keeper.Estimate does. For the recommended label it sends no request while the
// recommendation is fresh.
//
// Errors: *fault.ValidationError, with fault.InvalidModelLabel for a label outside the app's
// ordering; budget.ErrNotFound, *fault.UnavailableError, *StatusError.
func (c *Client) Estimate(ctx context.Context, org, app, label string, inputTokens, maxTokens int64) (int64, error) {
	path, err := c.appPath(ctx, org, app)
	if err != nil {
		return 0, err
	}
	if err := (prices.Usage{RequestID: org, Label: label}).Validate(); err != nil { // org is a UUID, as a request id must be
		return 0, err
	}
	for field, n := range map[string]int64{"tokens.input": inputTokens, "tokens.output": maxTokens} {
		if n < 0 || n > maxTokenCount {
			return 0, invalid(field, "is %d; give 0 to %d", n, int64(maxTokenCount))
		}
	}
	known := c.choices.choiceFor(path)
	if rec, ok := known.freshAnswer(c.opts.Now()); ok && rec.Label == label {
		return costMicros(rec.Price, inputTokens, maxTokens), nil
	}
	var answer struct {
		Label  string `json:"model_label"`
		Micros int64  `json:"estimate_usd_micros"`
	}
	_, err = c.doCall(ctx, &call{
		op: "Estimate", method: http.MethodGet, into: &answer,
		path: path + "/estimate?model_label=" + url.QueryEscape(label) + "&input_tokens=" + strconv.FormatInt(inputTokens, 10) + "&max_tokens=" + strconv.FormatInt(maxTokens, 10),
		check: func() error {
			if answer.Label != label || answer.Micros < 0 {
				return errors.New("it holds no estimate, or another label's")
			}
			return nil
		},
	})
	if errors.Is(err, fault.ErrUnavailable) && c.opts.OnUnavailable.Recommend != budget.Refuse {
		if rec, ok := known.staleAnswer(); ok && rec.Label == label {
			return costMicros(rec.Price, inputTokens, maxTokens), nil
		}
	}
	return answer.Micros, err
}

const maxTokenCount = 100_000_000 // per class, as in package budget

// costMicros returns the cost of a call with input and output tokens at the rates r, in micro-dollars, rounded
// up.
func costMicros(r prices.Rates, input, output int64) int64 {
	return money.Cost(input, r.Input).Add(money.Cost(output, r.Output)).MicrosUp()
}
