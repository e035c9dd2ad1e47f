package plan

import (
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Reading is the state of a bucket by an answer of the store.
type Reading struct {
	// Image is the bucket. If it is nil, the bucket does not exist and every limit is full.
	Image *schema.Image
	// Config is the configuration under which it was read.
	Config *Config
	// Now is the instant of the reading, in Unix ms.
	Now int64
}

// Worth returns the state of a limit at Now, with its refill added to the tokens.
func (r Reading) Worth(name string) bucket.State {
	state, _ := r.State(name)
	return state.At(r.Now)
}

// State returns a limit and its nominal capacity. A limit that the image lacks is as configured, and full.
func (r Reading) State(name string) (bucket.State, int64) {
	if r.Image != nil {
		if i := r.Image.Set.Index(name); i >= 0 && !r.Image.Limits[i].Ghost {
			return r.Image.State(i), r.Image.Limits[i].Capacity
		}
	}
	i := r.Config.Index(name)
	if i < 0 {
		return bucket.State{Rate: bucket.Rate{Burst: 1, Amount: 1, Period: 1}}, 0
	}
	l := &r.Config.Limits[i]
	state := bucket.State{Rate: l.Rate, Tokens: l.Rate.Burst, Refilled: r.Now}
	if l.Rate.IsQuota() {
		state.Refilled = l.Rate.WindowAt(r.Now)
	}
	return state, l.Capacity
}
