package tests

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/schema"
)

var (
	shadowModels = []string{"m0", "m1", "m2"}
	shadowGroups = []string{"g0", "g1"}
	shadowChain  = []string{"key", "team", "org"}
	shadowLimits = []string{"rpm", "tpm"}
)

// shadow is a table as its operator left it, told apart from what the library resolves. It
// judges every write of a bucket, and every lease.
type shadow struct {
	mu    sync.Mutex // never held across a request
	lag   time.Duration
	wrong []string
	// told is what the operator says now, and past what was in force since when.
	told   map[admin.Scope]saying
	plan   map[string]string
	past   map[string][]instance
	levels map[string]*shadowLevel
	stored map[string]schema.Stored
	// lapses means that processes debit ahead: what lapses comes off the counter alone.
	lapses, faults, adjusts bool
	// filling are the buckets that the operator fills by hand, gone the limits that left one.
	filling, gone map[string]bool
	// consuming are the leases that ask for more now.
	consuming int
}

// saying is what a record says.
type saying struct {
	bursts             [2]int64
	unlimited, blocked bool
	groups             []string
}

// instance is what a bucket is under, or a model, from at.
type instance struct {
	at      time.Time
	burst   int64 // 0 for none
	blocked bool
	groups  []string
}

// shadowLevel is what a bucket holds, in millitokens.
type shadowLevel struct {
	held  float64
	burst float64
	at    time.Time
}

func newShadow() *shadow {
	return &shadow{told: map[admin.Scope]saying{}, plan: map[string]string{}, past: map[string][]instance{}, levels: map[string]*shadowLevel{}, filling: map[string]bool{}, gone: map[string]bool{}, stored: map[string]schema.Stored{}}
}

func (s *shadow) scopes(entity, on string) []admin.Scope {
	order := []admin.Scope{{Entity: entity, Resource: on}}
	plan, ofModel := s.plan[entity], slices.Contains(shadowModels, on)
	if ofModel {
		order = append(order, admin.Scope{Entity: entity})
	}
	if plan != "" {
		order = append(order, admin.Scope{Plan: plan, Resource: on})
	}
	if plan != "" && ofModel {
		order = append(order, admin.Scope{Plan: plan})
	}
	order = append(order, admin.Scope{Everyone: true, Resource: on})
	if ofModel {
		order = append(order, admin.Scope{Everyone: true})
	}
	return order
}

// under is what an entity is under on a model or a group.
func (s *shadow) under(entity, on string, i int) (now instance) {
	won := false
	for _, at := range s.scopes(entity, on) {
		said := s.told[at]
		now.blocked = now.blocked || said.blocked
		if !won && (said.bursts != [2]int64{} || said.unlimited) {
			now.burst, won = said.bursts[i], true
		}
	}
	return now
}

// changed notes what every bucket and model is under from now on.
func (s *shadow) changed() {
	note := func(name string, now instance) {
		now.at = time.Now()
		s.past[name] = append(s.past[name], now)
	}
	for _, on := range slices.Concat(shadowModels, shadowGroups) {
		for _, entity := range shadowChain {
			for i, limit := range shadowLimits {
				note(entity+" "+on+" "+limit, s.under(entity, on, i))
			}
		}
		note(on, instance{groups: s.told[admin.Scope{Everyone: true, Resource: on}].groups})
	}
}

// lately is what was in force at some time from then until now, by the lag of a cache.
func (s *shadow) lately(name string, from time.Time) (all []instance) {
	list := s.past[name]
	for i, one := range list {
		if i+1 == len(list) || list[i+1].at.After(from.Add(-s.lag)) {
			all = append(all, one)
		}
	}
	return all
}

func (s *shadow) blame(format string, args ...any) {
	s.wrong = append(s.wrong, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

// written judges a write of a bucket.
func (s *shadow) written(w ddbmem.Write) {
	item := w.New
	if item == nil {
		item = w.Old
	}
	key := schema.KeyOf(item)
	on, is := strings.CutPrefix(key.SK, "#BUCKET#")
	if !is {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	bucket := strings.TrimPrefix(key.PK, "ENTITY#") + " " + on
	sets := schema.NewLimitSets()
	before, _ := sets.DecodeBucket(w.Old, nil, 0)
	after, _ := sets.DecodeBucket(w.New, nil, 0)
	for _, limit := range shadowLimits {
		name := bucket + " " + limit
		if after == nil || after.Set.Index(limit) < 0 {
			if _, was := s.stored[name]; was && after != nil { // it is not configured any more
				s.gone[name] = true
			}
			delete(s.levels, name)
			delete(s.stored, name)
			continue
		}
		i, was := after.Set.Index(limit), int64(0)
		if before != nil && before.Set.Index(limit) >= 0 {
			was = before.Limits[before.Set.Index(limit)].Consumed
		} else {
			delete(s.levels, name)
		}
		s.stored[name] = after.Limits[i]
		s.charged(name, after.Limits[i].Consumed-was, w.Time)
		s.held(name, after.Limits[i].Consumed-was, after.State(i).Level(w.Time.UnixMilli()), w.Time)
	}
}

// charged judges the limits under which a bucket is charged, and its counters. Where nothing
// limits it any more, leases that took from it are corrected all the same.
func (s *shadow) charged(name string, took int64, at time.Time) {
	now, lately := s.stored[name], s.lately(name, at)
	inForce := func(one instance) bool { return one.burst*milli == now.Burst }
	limited := func(one instance) bool { return one.burst > 0 }
	if took > 0 && !s.adjusts && slices.ContainsFunc(lately, limited) && !slices.ContainsFunc(lately, inForce) {
		s.blame("%s is charged under a burst of %d, in force were %v", name, now.Burst/milli, lately)
	}
	// What was taken of a limit before it left and came back is given back after that.
	if (now.Consumed < 0 || now.Passed < 0 || now.Passed > now.Consumed) && !s.gone[name] {
		s.blame("%s gave back what was not taken: %d, passed on %d", name, now.Consumed, now.Passed)
	}
}

// held judges what a limit holds after a write, stored as the bucket says. Credit is by the burst
// that the bucket had, which it regains in a minute; a lower burst cuts it, and a higher one does
// not fill it.
func (s *shadow) held(name string, consumed, stored int64, at time.Time) {
	level, burst := s.levels[name], float64(s.stored[name].Burst)
	took, says, slack := float64(consumed), float64(stored), 10.0*milli
	if s.faults { // a write may land so late
		slack += burst / 20
	}
	if level == nil {
		level = &shadowLevel{held: burst, burst: burst, at: at}
		s.levels[name] = level
	}
	level.held = min(burst, level.burst, level.held+level.burst*at.Sub(level.at).Minutes())
	level.burst, level.at = burst, at
	if bucket := name[:strings.LastIndex(name, " ")]; s.filling[bucket] && took == 0 {
		level.held = says
	}
	level.held = min(burst, level.held-took)
	free := slices.ContainsFunc(s.lately(name, at), func(one instance) bool { return one.burst == 0 })
	switch {
	case took > 0 && level.held < -slack && !s.adjusts && !free && s.consuming == 0:
		s.blame("%s holds %.0f of %.0f", name, level.held/milli, burst/milli)
	case says > level.held+slack && !s.lapses:
		s.blame("%s says that it holds %.0f of %.0f, it holds %.0f", name, says/milli, burst/milli, level.held/milli)
	case says < level.held-burst/8-70*milli && !s.lapses && !s.faults:
		s.blame("%s says that it holds only %.0f of %.0f, it holds %.0f", name, says/milli, burst/milli, level.held/milli)
	}
}

// leased judges what a lease charges, of a call on a model that began then.
func (s *shadow) leased(entity, on string, amounts dynalimit.Amounts, also map[string]dynalimit.Amounts, statuses []dynalimit.LimitStatus, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	charged := map[string]int64{}
	for _, st := range statuses {
		charged[st.EntityID+" "+st.Resource+" "+st.Limit.Name] = st.Requested
	}
	for _, id := range shadowChain[slices.Index(shadowChain, entity):] {
		for _, of := range slices.Concat(shadowModels, shadowGroups) {
			for _, limit := range shadowLimits {
				amount, more := amounts[limit], also[of][limit]
				name := id + " " + of + " " + limit
				limited, free, in, out, blocked := true, true, true, true, true
				for _, one := range s.lately(name, began) {
					limited, free, blocked = limited && one.burst > 0, free && one.burst == 0, blocked && one.blocked
				}
				for _, one := range s.lately(on, began) {
					has := slices.Contains(one.groups, of)
					in, out = in && has, out && !has
				}
				if of == on {
					in, out = true, false
				}
				got, is := charged[name]
				want := []int64{}
				if !out {
					want = append(want, amount+more)
				}
				if !in {
					want = append(want, more)
				}
				switch {
				case limited && (in && amount+more > 0 || more > 0) && !is:
					s.blame("%s is not charged by a call of %s on %s", name, entity, on)
				case got > 0 && free:
					s.blame("%s is charged by a call of %s on %s", name, entity, on)
				case is && !slices.Contains(want, got):
					s.blame("%s is charged %d, not %v, by a call of %s on %s", name, got, want, entity, on)
				case blocked && (in || more > 0):
					s.blame("%s is blocked, and a call of %s on %s was admitted", name, entity, on)
				}
			}
		}
	}
}

// blocks judges a call that was refused because of a block.
func (s *shadow) blocks(e *dynalimit.BlockedError, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.lately(e.EntityID+" "+e.Resource+" rpm", began), func(one instance) bool { return one.blocked }) {
		s.blame("%s on %s is not blocked", e.EntityID, e.Resource)
	}
}

// consume notes that one more lease asks for more, or one less: it brings along what it used of
// limits that came since it was made.
func (s *shadow) consume(more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.consuming += more
}
