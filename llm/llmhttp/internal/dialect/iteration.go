package dialect

// Run is the usage of a model with a bill of its own. An empty Model is the called one.
type Run struct {
	Model string
	Tokens
}

// iteration is one of Anthropic's usage.iterations.
type iteration struct {
	kind string
	Run
	said map[Said]int64
}

// name sets the iteration's type or model. It does nothing if i is nil: the value is outside an iteration.
func (i *iteration) name(said Said, name string) {
	switch {
	case i == nil:
	case said == IterationType:
		i.kind = name
	default:
		i.Model = name
	}
}

// iterations are the iterations of an answer; those of one kind and model are merged.
type iterations []iteration

// maxIterations are more than an answer has.
const maxIterations = 16

// add adds an iteration's tokens to the one of its kind and model, or appends it. Beyond 16 it adds them to
// the last one.
func (all *iterations) add(one iteration) {
	for i := range *all {
		if have := &(*all)[i]; have.kind == one.kind && have.Model == one.Model || i == maxIterations-1 {
			have.Tokens = have.plus(one.Tokens)
			return
		}
	}
	*all = append(*all, one)
}

// runs returns the tokens of an answer and its parts with a bill of their own. The whole is the usage that
// the answer reports.
//
// The whole is of the answering model: the called one, or the fallback_message's. It includes that model's
// "message" iterations. It includes neither compactions nor advice nor the output of a model that declined;
// one that declined before it wrote is not billed.
func (all iterations) runs(whole Tokens) (sum Tokens, runs []Run) {
	fallback := ""
	for _, i := range all {
		if i.kind == "fallback_message" {
			fallback = i.Model
		}
	}
	sum = whole
	if fallback != "" {
		runs = append(runs, Run{fallback, whole})
	}
	for _, i := range all {
		declined := i.kind == "message" && fallback != "" && i.Model != fallback && i.Output > 0
		if declined || i.kind == "compaction" || i.kind == "advisor_message" {
			sum, runs = sum.plus(i.Tokens), append(runs, i.Run)
		}
	}
	return sum, runs
}
