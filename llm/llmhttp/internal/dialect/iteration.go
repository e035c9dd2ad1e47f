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

// setName sets the iteration's type or model, whichever said means, to name. It does nothing if i is nil: the
// value is outside an iteration.
func (i *iteration) setName(said Said, name string) {
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

// addIteration adds the tokens of an iteration to the one of the same kind and model, or appends it. The list
// has at most 16; it adds the tokens of further ones to the last.
func (all *iterations) addIteration(one iteration) {
	for i := range *all {
		if have := &(*all)[i]; have.kind == one.kind && have.Model == one.Model || i == maxIterations-1 {
			have.Tokens = have.plus(one.Tokens)
			return
		}
	}
	*all = append(*all, one)
}

// splitRuns returns all tokens of an answer, and its runs, the parts with a bill of their own. The reported
// usage, whole, is that of the model that answered, and a run too if that is a fallback. Compactions, advice,
// and the output of a model that declined are added as runs.
func (all iterations) splitRuns(whole Tokens) (sum Tokens, runs []Run) {
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
