package dialect

// Run is what a model used that has a bill of its own. No Model: the one that was called.
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

// iterations are those of an answer; of one kind and model they are one.
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

// runs are the tokens of an answer, of which the usage of the whole told some, and those of them
// that have a bill of their own. The whole is of the model that answered: the one that was called,
// or, in its place, that of the fallback_message. It has in it what that model did as "message",
// and neither compactions nor advice nor what another model wrote before it declined. One that
// declined before it wrote is not billed.
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
