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

func (all *iterations) add(one iteration) {
	for i := range *all {
		if have := &(*all)[i]; have.kind == one.kind && have.Model == one.Model || i == maxIterations-1 {
			have.Tokens = have.plus(one.Tokens)
			return
		}
	}
	*all = append(*all, one)
}

// runs are the tokens of an answer, given the reported usage of the whole, and the parts
// with a bill of their own. The whole is of the answering model: the called one,
// or, in its place, the one of the fallback_message. It includes that model's "message"
// iterations, but neither compactions nor advice nor the output of another model before it declined. A model
// that declined before it wrote is not billed.
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
