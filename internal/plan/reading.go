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

// noteSkew bounds the end of a reservation, in ms after the time in which an empty bucket fills.
const noteSkew = 1000

// IsReserved reports whether a waiter of another process has reserved amounts. lane is the id of the own lane.
func (r Reading) IsReserved(lane uint32) bool { return r.reservation(lane) != nil }

// reservation returns the note of another lane's reservation; nil without one. It ignores a reservation that ends
// later than a lane makes them: noteSkew after an empty bucket would be full.
func (r Reading) reservation(lane uint32) *schema.Note {
	if r.Image == nil || r.Image.Note == nil || r.Image.Note.Lane == lane || r.Image.Note.Until <= r.Now {
		return nil
	}
	longest := int64(0)
	for i := range r.Image.Limits {
		if l := &r.Image.Limits[i]; !l.Ghost && i < len(r.Image.Note.Needs) && r.Image.Note.Needs[i] > 0 {
			longest = max(longest, l.FillTime(0))
		}
	}
	if r.Image.Note.Until-r.Now > bucket.SaturatingAdd(longest, noteSkew) {
		return nil
	}
	return r.Image.Note
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
			if r.Image.Limits[i].Period == 0 { // slots
				return r.freeSlots(i), r.Image.Limits[i].Capacity
			}
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

// freeSlots returns the state of a limit of calls in flight with the slots of past epochs as free ones.
func (r Reading) freeSlots(i int) bucket.State {
	state, name := r.Image.State(i), r.Image.Set.Names[i]
	state.Tokens = r.Image.FreeSlots(i, r.Config.holdOf(name), r.Now)
	return state
}
