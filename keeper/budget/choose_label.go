package budget

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/prices"
)

// ChooseLabel returns the label that an app may use now, and its model: the label that is given if
// that has room or is forced, and the recommended one if none is given. A label that is given is
// never replaced. With CountCalls it makes a keeper one for a guard of package llm.
//
// Errors: as of Recommend, and a *fault.ValidationError for a label outside the app's ordering.
func (k *Keeper) ChooseLabel(ctx context.Context, org, app, label string) (chosen, model string, err error) {
	if err := k.usable(ctx); err != nil {
		return "", "", err
	}
	rec, err := k.Recommend(ctx, org, app)
	return rec.Choose(label, err, k.now())
}

// CountCalls counts what 1 to 100 calls cost, as SubmitBatch does. It returns an error for each, nil
// if it is counted. err is for all of them.
func (k *Keeper) CountCalls(ctx context.Context, org, app string, calls []prices.Usage) (errs []error, err error) {
	results, err := k.SubmitBatch(ctx, org, app, calls)
	return ErrorsOf(results), err
}

// ErrorsOf returns the errors of a batch's results, nil for each record that is counted.
func ErrorsOf(results []BatchResult) []error {
	errs := make([]error, len(results))
	for i, r := range results {
		errs[i] = r.Err
	}
	return errs
}

// Choose returns the given label of the recommendation and its model, if that label has room or is
// forced; the recommended one if none is given. denial is the error with which Recommend returned the
// recommendation, nil for none, and now the time of the choice. Any other error than a denial is returned.
//
// Errors: *prices.QuotaExceededError, and a *fault.ValidationError for a label outside the ordering.
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
		return "", "", invalidLabel(label)
	}
	switch {
	case r.Label == label: // forced, perhaps, whatever was spent
	case denied:
		err = denial
	case labels[i].Status == prices.StatusExceeded:
		err = &prices.QuotaExceededError{Labels: labels, RetryAt: r.ResetAt, DecidedAt: now}
	case labels[i].Status == prices.StatusUnpriced:
		err = &prices.QuotaExceededError{Labels: labels, DecidedAt: now}
	}
	return label, labels[i].Model, err
}
