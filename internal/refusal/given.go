package refusal

import "github.com/dynalimit/dynalimit"

// Given are the options of an acquire with the parent and the plan that the caller's credentials name,
// empty for none.
func Given(opts []dynalimit.AcquireOption, parent, plan string) []dynalimit.AcquireOption {
	opts = opts[:len(opts):len(opts)] // callers share them
	if parent != "" {
		opts = append(opts, dynalimit.WithParent(parent))
	}
	if plan != "" {
		opts = append(opts, dynalimit.WithPlan(plan))
	}
	return opts
}
