package llm_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/prices"
)

// fakeBudget is the budget of all keepers of a world: quotas of labels, and the records counted.
type fakeBudget struct {
	now  func() time.Time
	list prices.List
	away atomic.Bool // no keeper reaches its store

	mu      sync.Mutex
	orgs    map[string]fakeOrg
	records map[string]prices.Usage // counted, by request id
	of      map[string]string       // organisations of records
}

type fakeOrg struct {
	ordering []string
	quotas   map[string]int64 // µ$
	forced   string
}

func newFakeBudget(now func() time.Time) *fakeBudget {
	return &fakeBudget{now: now, list: prices.CatalogList(), orgs: map[string]fakeOrg{}, records: map[string]prices.Usage{}, of: map[string]string{}}
}

func (b *fakeBudget) setOrg(id string, o fakeOrg) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.orgs[id] = o
}

// total is what is counted under a label.
type total struct {
	prices.Tokens
	CostMicros, Requests int64
}

// total sums the records of a label. The lock must be held.
func (b *fakeBudget) total(org, label string) (t total) {
	var picos int64
	for id, u := range b.records {
		if b.of[id] != org || u.Label != label {
			continue
		}
		t.Requests++
		p, _ := b.list.Price(cmp.Or(u.Model, fakeModels[label]), u.Time)
		rates := p.Assumed()
		for _, c := range prices.Classes() {
			*c.Count(&t.Tokens) += *c.Count(&u.Tokens)
			picos += *c.Count(&u.Tokens) * max(*c.Rate(&rates), 0)
		}
	}
	t.CostMicros = (picos + 500_000) / 1_000_000
	return t
}

// fakeKeeper is a keeper of one process.
type fakeKeeper struct {
	*fakeBudget
	closed atomic.Bool
}

var (
	errKeeperClosed = errors.New("keeper: closed")
	fakeModels      = map[string]string{"premium": premiumModel, "standard": standardModel}
)

func (k *fakeKeeper) Close(context.Context) error {
	k.closed.Store(true)
	return nil
}

func (k *fakeKeeper) usable(id string) error {
	switch {
	case k.closed.Load():
		return errKeeperClosed
	case len(id) != len(org):
		return &fault.ValidationError{Package: "keeper", Field: "org_id", Reason: "is no UUID"}
	case k.away.Load():
		return &fault.UnavailableError{Package: "keeper", Err: errors.New("no answer")}
	}
	return nil
}

func unknownLabel(label string) error {
	return &fault.ValidationError{Package: "keeper", Field: "model_label", Code: fault.InvalidModelLabel, Reason: label + " is not in the ordering"}
}

func (k *fakeKeeper) ChooseLabel(_ context.Context, org, _, label string) (chosen, model string, err error) {
	if err := k.usable(org); err != nil {
		return "", "", err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	o := k.orgs[org]
	if label != "" && !slices.Contains(o.ordering, label) {
		return "", "", unknownLabel(label)
	}
	denial := &prices.QuotaExceededError{DecidedAt: k.now(), RetryAt: k.now().Truncate(24 * time.Hour).Add(24 * time.Hour)}
	for _, l := range o.ordering {
		room := k.total(org, l).CostMicros < o.quotas[l]
		if (room || l == o.forced) && (label == "" || label == l) {
			return l, fakeModels[l], nil
		}
		denial.Labels = append(denial.Labels, prices.LabelStatus{Label: l, Model: fakeModels[l]})
	}
	return "", "", denial
}

func (k *fakeKeeper) CountCalls(_ context.Context, org, _ string, calls []prices.Usage) ([]error, error) {
	if err := k.usable(org); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	errs := make([]error, len(calls))
	for i, u := range calls {
		errs[i] = k.count(org, u)
	}
	return errs, nil
}

// count counts a record once. The lock must be held.
func (k *fakeKeeper) count(org string, u prices.Usage) error {
	switch {
	case u.Validate() != nil:
		return u.Validate()
	case u.Time.Before(k.now().Add(-24 * time.Hour)):
		return &fault.ValidationError{Package: "keeper", Field: "timestamp", Reason: "is too old"}
	}
	k.records[u.RequestID], k.of[u.RequestID] = u, org
	return nil
}
