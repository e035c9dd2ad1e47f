package plan

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Standing is the relation of a configuration to the one in a bucket.
type Standing uint8

// The relations of a configuration to a bucket's.
const (
	Current Standing = iota // the same
	Newer                   // to be claimed
	Older                   // the bucket's own decides
	Unsure                  // too close to tell: read the configuration again
	Rival                   // of a plan given by calls, while other calls give another plan: the two take turns
	Early                   // read before the end of a raise that it leaves out: the bucket's own decides
)

// Compare returns the relation of a configuration to the image's; Newer for a nil image, or one without a
// fingerprint. seenTick is the tick at which this process first saw the image's fingerprint. A configuration
// read after that is newer, even if the clocks say otherwise.
func Compare(m *schema.Image, cfg *Config, seenTick int64) Standing {
	switch {
	case m == nil || m.Fingerprint == nil || !m.HasRefilled:
		return Newer
	case string(m.Fingerprint) == string(cfg.Fingerprint):
		if cfg.BringsAlerts(m) {
			return Newer
		}
		return Current
	case cfg.Override:
		return Newer
	case cfg.isBeforeRaiseEnd(m):
		return Early
	case cfg.From().Given:
		return Rival
	case cfg.Tick > seenTick:
		return Newer
	}
	stored := m.ConfigRead + configMarginMS // the instant itself
	switch {
	case cfg.ReadAt > stored+configMarginMS:
		return Newer
	case cfg.ReadAt < stored-configMarginMS:
		return Older
	}
	return Unsure
}

// View is an image under the deciding configuration at one instant. Its rows have the worth of each limit.
// Its methods change neither the image nor the configuration.
type View struct {
	// Image is the last image of the bucket. It is nil if the bucket does not exist.
	Image *schema.Image
	// Config is the deciding configuration. It is nil if nothing limits the bucket any more.
	Config *Config
	// Adopt means that the write brings Config: it changes parameters and adds limits.
	Adopt bool
	// noLevels means that the write only gives back, so that rows of token buckets need no levels.
	noLevels bool
	// Now is the instant of the decision, in Unix ms.
	Now int64
	// InFlight are the slots of the process's open calls; nil without one.
	InFlight *InFlight
}

// Missing returns the name of the first limit of amounts that the bucket lacks and the write does not add; ""
// without such a limit.
func (v View) Missing(amounts []Signed) string {
	for _, a := range amounts {
		if !v.Image.HasLimit(a.Name) && (v.Image != nil && !v.Adopt || v.Config.Index(a.Name) < 0) {
			return a.Name
		}
	}
	return ""
}

// Overfull returns the names of unconfigured limits that have not refilled yet, if they and the configured ones
// exceed the size of a claim. longest is the time in ms until the last of them is full. It returns nil if a
// claim can carry them all. The view must have an image.
func (v View) Overfull() (waiting []string, longest int64) {
	if len(v.Image.Set.Names)+len(v.Config.Limits) <= schema.MaxStored {
		return nil, 0
	}
	for i, name := range v.Image.Set.Names {
		l := &v.Image.Limits[i]
		if l.Ghost || v.Config.Index(name) >= 0 {
			continue
		}
		if wait := v.Image.State(i).Wait(v.Now, l.Burst); wait > 0 {
			waiting, longest = append(waiting, name), max(longest, wait)
		}
	}
	if len(waiting)+len(v.Config.Limits) <= schema.MaxStored {
		return nil, 0
	}
	return waiting, longest
}

// Reading returns the image, configuration and instant of the view as a reading, for statuses and forecasts of
// an interactive call.
func (v View) Reading() Reading { return Reading{Image: v.Image, Config: v.Config, Now: v.Now} }

// Reading is the state of a bucket by an answer of the store.
type Reading struct {
	// Image is the bucket. If it is nil, the bucket does not exist and every limit is full.
	Image *schema.Image
	// Config is the configuration under which it was read.
	Config *Config
	// Now is the instant of the reading, in Unix ms.
	Now int64
	// Batch means that a batch call reads it.
	Batch bool
}

// noteSkew bounds the end of a reservation, in ms after the time in which an empty bucket fills.
const noteSkew = 1000

// IsReserved reports whether a waiter of another process, of the reading's class (Batch), has reserved amounts
// until later than Now. lane is the id of the own lane.
func (r Reading) IsReserved(lane uint32) bool { return r.reservation(lane) != nil }

// reservation returns the note of another lane's reservation, for waiters of the reading's class; nil without
// one. It ignores one that has ended, or ends more than a second after an empty bucket would be full, later
// than a lane makes them.
func (r Reading) reservation(lane uint32) *schema.Note {
	if r.Image == nil {
		return nil
	}
	n := r.Image.Notes.NoteFor(r.Batch)
	if n == nil || n.Lane == lane || n.Until <= r.Now {
		return nil
	}
	longest := int64(0)
	for i := range r.Image.Limits {
		if l := &r.Image.Limits[i]; !l.Ghost && i < len(n.Needs) && n.Needs[i] > 0 {
			longest = max(longest, l.FillTime(0))
		}
	}
	if n.Until-r.Now > bucket.SaturatingAdd(longest, noteSkew) {
		return nil
	}
	return n
}

// Worth returns the state of a limit at Now, with its refill added to the tokens.
func (r Reading) Worth(name string) bucket.State {
	state, _ := r.State(name)
	return state.At(r.Now)
}

// State returns a limit as stored, without its credit, and its nominal capacity in millitokens. A limit that
// the image lacks is as configured, and full; without a configuration it is empty. Slots of past epochs count
// as free.
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

// freeSlots returns the state of the image's limit i, one of calls in flight, with the slots of past epochs as
// free ones.
func (r Reading) freeSlots(i int) bucket.State {
	state, name := r.Image.State(i), r.Image.Set.Names[i]
	state.Tokens = r.Image.FreeSlots(i, r.Config.holdOf(name), r.Now)
	return state
}

// Kept returns the amount of a limit that the reading's caller leaves to others, in millitokens: the reserve
// for a batch call, else 0. It is 0 too for a limit in shadow, and for one that is not configured.
func (r Reading) Kept(name string) int64 {
	if !r.Batch {
		return 0
	}
	i := r.Config.Index(name)
	if i < 0 || r.Config.InShadow(name) {
		return 0
	}
	state, _ := r.State(name)
	return state.Rate.ReserveOf(r.Config.Limits[i].Reserve)
}

// A refused write costs a write unit; a bucket has a thousand of these a second. A read costs one of three
// thousand read units, at a fifth of the price. So a lane reads before it writes if the bucket is scarce and
// its image is old. If no other process takes from the bucket, the lane's image is exact. Everything here is
// pure.

const (
	// lowShare is the divisor of a burst: a limit below that part is scarce.
	lowShare = 10
	// sharedFor is the time in ms for which a bucket counts as shared after another process took from it.
	sharedFor = 60_000
)

// IsShared reports whether a bucket counts as shared at now: less than a minute has passed since seen, the last
// sign of another process. Both are in ms.
func IsShared(seen, now int64) bool { return now-seen < sharedFor }

// Low reports whether, by the image at the instant at in ms, some limit in amounts is below a tenth of its
// burst. Limits that the image lacks do not count. Nor do quotas: a quota is low for hours, and a read before
// each write would be too many.
func Low(m *schema.Image, amounts []Signed, at int64) bool {
	for _, a := range amounts {
		if !m.HasLimit(a.Name) {
			continue
		}
		if s := m.State(m.Set.Index(a.Name)); s.Period >= 0 && s.Level(at) < s.Burst/lowShare {
			return true
		}
	}
	return false
}

// Tight reports whether amounts would leave less than a tenth of a limit's burst, by the image at the instant
// at in ms. The bucket may then well deny them. Limits that the image lacks do not count.
func Tight(m *schema.Image, amounts []Signed, at int64) bool {
	for _, a := range amounts {
		if !m.HasLimit(a.Name) {
			continue
		}
		if s := m.State(m.Set.Index(a.Name)); s.Level(at)-a.Amount < s.Burst/lowShare {
			return true
		}
	}
	return false
}

// Unopened returns the instant by which to decide a write, in Unix ms: now, or sure if a quota's window begins
// between them. sure is an instant that has certainly passed, so a clock that is ahead opens no window. m and
// cfg may be nil.
func Unopened(m *schema.Image, cfg *Config, sure, now int64) int64 {
	if sure >= now {
		return now
	}
	begins := func(r bucket.Rate) bool { return r.WindowAt(sure) != r.WindowAt(now) }
	if m != nil && slices.ContainsFunc(m.Limits, func(l schema.Stored) bool { return begins(l.Rate) }) ||
		cfg != nil && slices.ContainsFunc(cfg.Limits, func(l schema.Limit) bool { return begins(l.Rate) }) {
		return sure
	}
	return now
}
