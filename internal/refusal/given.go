package refusal

import "github.com/dynalimit/dynalimit"

// CallerOptions returns a copy of the options of an acquire with the parent and the plan that the caller's
// credentials name, "" for none. It adds WithBatch if batch is set.
func CallerOptions(opts []dynalimit.AcquireOption, parent, plan string, batch bool) []dynalimit.AcquireOption {
	opts = opts[:len(opts):len(opts)] // callers share them
	if parent != "" {
		opts = append(opts, dynalimit.WithParent(parent))
	}
	if plan != "" {
		opts = append(opts, dynalimit.WithPlan(plan))
	}
	if batch {
		opts = append(opts, dynalimit.WithBatch())
	}
	return opts
}
