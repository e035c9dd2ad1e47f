package budget

import (
	"cmp"
	"slices"
	"time"
)

// pastModel is an earlier model of a label. Calls that were in flight at the change name it and
// are priced by it.
type pastModel struct {
	Label string `dynamodbav:"label"`
	Model string `dynamodbav:"model_id"`
	Until int64  `dynamodbav:"until_epoch"` // when it was replaced, in unix seconds
}

const (
	// pastFor is how long a replaced model is kept: as long as a spool may still deliver a
	// record that names it.
	pastFor = dedupFor
	maxPast = 256 // per configuration; the newest are kept
)

// pastModels returns the earlier models of labels after a change from before to models at now, by the end of
// their use. It adds replaced models, and drops those in use again, those older than pastFor, and the oldest
// beyond maxPast.
func pastModels(past []pastModel, before, models map[string]string, now time.Time) []pastModel {
	past = slices.DeleteFunc(slices.Clone(past), func(p pastModel) bool {
		return p.Until < now.Add(-pastFor).Unix() || models[p.Label] == p.Model
	})
	for label, model := range before {
		if models[label] != model {
			past = append(past, pastModel{label, model, now.Unix()})
		}
	}
	slices.SortFunc(past, pastModel.comparePast)
	return past[max(0, len(past)-maxPast):]
}

// comparePast returns a negative number, 0 or a positive number for sorting past models: by the end of their
// use, then by label and model.
func (p pastModel) comparePast(o pastModel) int {
	return cmp.Or(cmp.Compare(p.Until, o.Until), cmp.Compare(p.Label, o.Label), cmp.Compare(p.Model, o.Model))
}
