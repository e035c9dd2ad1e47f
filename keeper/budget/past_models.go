package budget

import (
	"cmp"
	"slices"
	"time"
)

// pastModel is a model that a label had. Calls that were under way then name it, and are
// priced by it.
type pastModel struct {
	Label string `dynamodbav:"label"`
	Model string `dynamodbav:"model_id"`
	Until int64  `dynamodbav:"until_epoch"` // when it was replaced, in unix seconds
}

const (
	// pastFor is how long a label's model is kept after it was replaced: as long as a record
	// that names it may still come from a spool.
	pastFor = dedupFor
	maxPast = 256 // of one configuration, the newest
)

// pastModels are the models that labels had before a configuration with others.
func pastModels(past []pastModel, before, models map[string]string, now time.Time) []pastModel {
	past = slices.DeleteFunc(slices.Clone(past), func(p pastModel) bool {
		return p.Until < now.Add(-pastFor).Unix() || models[p.Label] == p.Model
	})
	for label, model := range before {
		if models[label] != model {
			past = append(past, pastModel{label, model, now.Unix()})
		}
	}
	slices.SortFunc(past, pastModel.compare)
	return past[max(0, len(past)-maxPast):]
}

func (p pastModel) compare(o pastModel) int {
	return cmp.Or(cmp.Compare(p.Until, o.Until), cmp.Compare(p.Label, o.Label), cmp.Compare(p.Model, o.Model))
}
