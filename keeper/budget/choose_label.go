package budget

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/prices"
)

// ChooseLabel returns a label that an app may use now, and its model. With a label it returns
// that label, if it has room or is forced, and never another one. With "" it returns the
// recommended label. ChooseLabel and CountCalls make a keeper usable as the budget of a guard
// of package llm.
//
// Errors: as Recommend, and a *fault.ValidationError for a label outside the app's ordering.
func (k *Keeper) ChooseLabel(ctx context.Context, org, app, label string) (chosen, model string, err error) {
	if err := k.checkUsable(ctx); err != nil {
		return "", "", err
	}
	rec, err := k.Recommend(ctx, org, app)
	return rec.Choose(label, err, k.now())
}

// CountCalls counts the costs of 1 to 100 calls, as SubmitBatch does. errs has one error for
// each call, nil for a counted one. err concerns all of them.
func (k *Keeper) CountCalls(ctx context.Context, org, app string, calls []prices.Usage) (errs []error, err error) {
	results, err := k.SubmitBatch(ctx, org, app, calls)
	return ErrorsOf(results), err
}

// ErrorsOf returns the errors of a batch's results, nil for each counted record.
func ErrorsOf(results []BatchResult) []error {
	errs := make([]error, len(results))
	for i, r := range results {
		errs[i] = r.Err
	}
	return errs
}

// Choose returns the given label of the recommendation and its model, if that label has room or is forced.
// With "" it returns the recommended label. denial is the error that Recommend returned with the
// recommendation, or nil. If it is another error than a denial, Choose returns it. now is the time of the
// choice.
//
// Errors: *prices.QuotaExceededError, and a *fault.ValidationError for a label outside the
// ordering.
func (r Recommendation) Choose(label string, denial error, now time.Time) (chosen, model string, err error) {
	exceeded, denied := errors.AsType[*prices.QuotaExceededError](denial)
	if label == "" || denial != nil && !denied {
		return r.Label, r.Model, denial
	}
	labels := r.Labels
	if denied {
		labels = exceeded.Labels
	}
	i := slices.IndexFunc(labels, func(l prices.LabelStatus) bool { return l.Label == label })
	if i < 0 {
		return "", "", invalidLabelError(label)
	}
	switch {
	case r.Label == label: // perhaps forced, whatever the spend
	case denied:
		err = denial
	case labels[i].Status == prices.StatusExceeded:
		err = &prices.QuotaExceededError{Labels: labels, RetryAt: r.ResetAt, DecidedAt: now}
	case labels[i].Status == prices.StatusUnpriced:
		err = &prices.QuotaExceededError{Labels: labels, DecidedAt: now}
	}
	return label, labels[i].Model, err
}
