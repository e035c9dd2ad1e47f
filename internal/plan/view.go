package plan

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Standing says how a configuration relates to the one that a bucket was written with.
type Standing uint8

// How a configuration relates to a bucket's.
const (
	Current Standing = iota // the same
	Newer                   // to be claimed
	Older                   // the bucket's own decides
	Unsure                  // too close to tell: read the configuration again
	Rival                   // of a plan that calls give, and others give another: they take turns
	Early                   // read before the end of a raise that it leaves out: the bucket's own decides
)

// Compare says how a configuration relates to the image's. seenTick is when this process
// first saw the image's fingerprint: a configuration read after that is newer, whatever
// the clocks say.
func Compare(m *schema.Image, cfg *Config, seenTick int64) Standing {
	switch {
	case m == nil || m.Fingerprint == nil || !m.HasRefilled:
		return Newer
	case string(m.Fingerprint) == string(cfg.Fingerprint):
		return Current
	case cfg.Override:
		return Newer
	case cfg.early(m):
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

// View is an image under the configuration that decides. It says what each limit is
// worth, and decides writes. Its methods change nothing.
type View struct {
	// Image is the bucket as last seen, nil for none.
	Image *schema.Image
	// Config is the configuration that decides, nil when nothing limits the
	// bucket any more.
	Config *Config
	// Adopt means that the write brings Config, so that parameters change and limits are
	// added.
	Adopt bool
	// Now is the instant of the decision, in Unix ms.
	Now int64
}

// NewView puts an image under a configuration that relates to it as s says.
func NewView(m *schema.Image, cfg *Config, s Standing, now int64) View {
	return View{Image: m, Config: cfg, Adopt: s == Newer, Now: now}
}

// state is limit i of the image. If a claim changes the burst of a token bucket, the smaller
// burst counts.
func (v View) state(i int) bucket.State {
	s := v.Image.State(i)
	if s.IsQuota() || v.replaced(i) {
		return s
	}
	if c := v.changed(i); c != nil && c.Rate.Burst < s.Burst {
		s.Burst = c.Rate.Burst
	}
	return s
}

// changed are the new parameters of limit i; nil if the write does not change them.
func (v View) changed(i int) *Limit {
	if !v.Adopt {
		return nil
	}
	if j := v.Config.Index(v.Image.Set.Names[i]); j >= 0 {
		return &v.Config.Limits[j]
	}
	return nil
}

// ofQuota reports whether limit i of the image is a quota that holds tokens.
func (v View) ofQuota(i int) bool { return v.tracked(i) && v.Image.Limits[i].IsQuota() }

// quota is limit i, which is one and does not become a token bucket.
func (v View) quota(i int) quota { return quota{v.Image.State(i), v.changed(i), v.Now} }

// replaced reports whether the write makes limit i one of the other kind.
func (v View) replaced(i int) bool {
	c := v.changed(i)
	return c != nil && v.tracked(i) && c.Rate.IsQuota() != v.Image.Limits[i].IsQuota()
}

// begins reports whether a stored limit begins a new life with new parameters, nil for none: its
// kind or its unit changes.
func begins(l *schema.Stored, to *Limit) bool {
	switch {
	case to == nil || l.Ghost:
		return false
	case to.Rate.IsQuota() != l.IsQuota():
		return true
	}
	return l.IsQuota() && to.Rate.Windows().Unit() != l.Windows().Unit()
}

// lifeAfter is the life that it is in then.
func lifeAfter(l *schema.Stored, to *Limit) uint16 {
	life := l.Life
	if begins(l, to) {
		life = bucket.NextLife(life)
	}
	return life
}

// Of is what sums do to a limit of the view. What was taken from a quota in another window than
// the one that the write is in is not given back to its tokens: that window has ended. The same
// goes for what was taken in another life of the limit.
func (v View) Of(s Sums, name string) Named { return v.windowed(s.Of(name)) }

func (v View) windowed(n Named) Named {
	if n.Back == 0 && n.Window == 0 || v.Image == nil {
		return n
	}
	i := v.Image.Set.Index(n.Name)
	if !v.tracked(i) {
		return n
	}
	kept := !begins(&v.Image.Limits[i], v.changed(i)) && n.Window == v.Image.Limits[i].WindowID()
	if kept && v.ofQuota(i) {
		_, is := v.quota(i).opening()
		kept = is == n.Window.Ordinal()
	}
	if !kept {
		n.Late -= n.Back
		n.Back = 0
	}
	return n
}

// GivenBack is what a write that only gives back does to a limit, and whether that is a quota,
// as far as is known.
func (v View) GivenBack(n Named) (given Named, quota bool) {
	if v.Image == nil {
		return n, n.Window.IsQuota()
	}
	return v.windowed(n), v.ofQuota(v.Image.Set.Index(n.Name))
}

// Room is what a take of a limit may use, in millitokens, after back has been
// given back. known is false when neither the image nor an adopted configuration has the limit.
func (v View) Room(name string, back int64) (room int64, known bool) {
	i := -1
	if v.Image != nil {
		i = v.Image.Set.Index(name)
	}
	switch {
	case i >= 0 && v.replaced(i):
		return replacement(v.Image.State(i), v.changed(i).Rate, v.Now), true
	case v.ofQuota(i):
		return v.quota(i).room(back), true
	}
	if i >= 0 && !v.Image.Limits[i].Ghost {
		s := v.state(i)
		credit, ok := s.Credit(v.Now)
		if !ok {
			return s.Burst, true
		}
		return min(s.Burst, s.Tokens+credit+back), true
	}
	if v.Image != nil && !v.Adopt {
		return 0, false
	}
	j := v.Config.Index(name)
	if j < 0 {
		return 0, false
	}
	burst := v.Config.Limits[j].Rate.Burst
	if i >= 0 { // a ghost: what it was charged, from full
		return min(burst, burst+v.Image.Limits[i].Tokens+back), true
	}
	return burst, true
}

// Lacks reports whether the bucket does not have one of the limits, so that only a claim
// of another configuration can add it.
func (v View) Lacks(amounts []Signed) bool {
	return slices.ContainsFunc(amounts, func(a Signed) bool { return !v.knows(a.Name) })
}

// knows reports whether the image, or a configuration that is brought, has a limit.
func (v View) knows(name string) bool {
	return v.Image.Holds(name) || (v.Image == nil || v.Adopt) && v.Config.Index(name) >= 0
}

// Overfull names the limits that left the configuration and have not refilled
// yet, if they and the configured ones are more than a claim can carry, and says
// in how many ms the last of them has; nil when a claim can carry them all.
func (v View) Overfull() (waiting []string, longest int64) {
	if !v.Adopt || v.Image == nil || len(v.Image.Set.Names)+len(v.Config.Limits) <= schema.MaxStored {
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

// Fits reports whether a take fits beside the sums that are already carried and what
// must be left to waiters.
func (v View) Fits(amounts []Signed, carried Sums, left Promises) bool {
	for _, a := range v.Config.Enforced(amounts) {
		beside := v.Of(carried, a.Name)
		room, known := v.Room(a.Name, beside.Back)
		if !known || a.Amount > room-beside.Take-left.Of(a.Name).Amount {
			return false
		}
	}
	return true
}

// Modest reports whether a take, with the sums already carried, stays within a share of
// what the bucket holds; the share has been halved the given number of times.
func (v View) Modest(amounts []Signed, carried Sums, halved int) bool {
	for _, a := range v.Config.Enforced(amounts) {
		beside := v.Of(carried, a.Name)
		if room, _ := v.Room(a.Name, beside.Back); beside.Take+a.Amount > room>>halved {
			return false
		}
	}
	return true
}

// LeavesHalf reports whether a take beside the sums already carried leaves every
// limit that it names at half its burst or more.
func (v View) LeavesHalf(amounts []Signed, carried Sums) bool {
	for _, a := range amounts {
		i := v.Image.Set.Index(a.Name)
		if i < 0 {
			return false
		}
		beside := v.Of(carried, a.Name)
		room, known := v.Room(a.Name, beside.Back)
		if !known || room-beside.Take-beside.Adjust-a.Amount < v.Image.Limits[i].Burst/2 {
			return false
		}
	}
	return true
}

// Taken is what a batch takes of each limit of the view: takes and adjusts together.
func (v View) Taken(s Sums) Sums {
	var taken Sums
	for _, n := range s {
		n = v.windowed(n)
		at := taken.At(n.Name)
		at.Take += n.Take + n.Adjust
		at.Back += n.Back // first, and a full bucket holds no more
	}
	return taken
}

// Reading is what the view's bucket holds, for statuses and forecasts.
func (v View) Reading() Reading { return Reading{Image: v.Image, Config: v.Config, Now: v.Now} }
