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
func pastModels(seen configItem, models map[string]string, now time.Time) []pastModel {
	past := slices.DeleteFunc(slices.Clone(seen.Past), func(p pastModel) bool {
		return p.Until < now.Add(-pastFor).Unix() || models[p.Label] == p.Model
	})
	for label, model := range seen.Models {
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

// pastModel is the last model that a label had within pastFor, and whether one of that name
// was among those it had.
func (t *tenant) pastModel(label, named string, now time.Time) (last string, had bool) {
	past := slices.Concat(t.past.org, t.past.app)
	slices.SortStableFunc(past, func(a, b pastModel) int { return cmp.Compare(a.Until, b.Until) })
	for _, p := range past {
		if p.Label == label && p.Until >= now.Add(-pastFor).Unix() {
			last, had = p.Model, had || p.Model == named
		}
	}
	return last, had
}

// recordModel is the model by which a record is priced: the one it names, if its label has or
// had it, or else the label's; of a label without one, the last that it had. No record
// chooses its price.
func (t *tenant) recordModel(u Usage, now time.Time) (string, error) {
	last, had := t.pastModel(u.Label, u.Model, now)
	model := cmp.Or(t.model(t.policy(), u.Label), last)
	switch {
	case model == "":
		return "", noModel(u.Label)
	case u.Model == "":
		return model, nil
	case had, u.Model == model, u.Model == t.config.Models[u.Label], u.Model == t.options[u.Label]:
		return u.Model, nil
	}
	return "", invalid("model_id", "label %q is model %q, not %q", u.Label, model, u.Model)
}
