package ledger

import (
	"cmp"
	"slices"

	"github.com/dynalimit/dynalimit/aggregator"
)

// ModelUsage is the part of a limit's usage by one model. Its JSON has the names given here.
type ModelUsage struct {
	Model    string `json:"model"`
	Consumed int64  `json:"consumed_millitokens"`
}

// Others is the name for the part of a limit's usage that was not counted by model. No model has it.
const Others = "(others)"

// ModelsOf returns the usage of a limit by model in millitokens, the largest first. The usage that was not
// counted by model comes last under the name Others, unless it is 0. It returns nil for a limit that is not
// counted by model.
func ModelsOf(l aggregator.LimitUsage) (list []ModelUsage) {
	others := l.Consumed
	for model, n := range l.ByModel {
		list = append(list, ModelUsage{model, n})
		others -= n
	}
	slices.SortFunc(list, func(a, b ModelUsage) int {
		return cmp.Or(cmp.Compare(b.Consumed, a.Consumed), cmp.Compare(a.Model, b.Model))
	})
	if others != 0 && list != nil {
		list = append(list, ModelUsage{Others, others})
	}
	return list
}
