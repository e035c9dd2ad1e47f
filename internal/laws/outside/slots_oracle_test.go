package outside

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// slotLease is a lease with slots.
type slotLease struct {
	*dynalimit.Lease
	of    *wired
	busy  atomic.Bool
	began time.Time
	// slots are by entity, in whole slots; at one that is not there the limit was of another kind.
	slots map[string]int64
	// sure is the instant from which a bucket surely counts the slots, by entity. It is missing if that has always
	// been so.
	sure map[string]time.Time
	// longest is the longest time for which it may keep its slots. A process that took them while its source made the
	// limit a bucket knows only the default, an hour, until it reads the limits again.
	longest time.Duration
	// ended means that somebody ended it, and died is the instant at which its process died. vague means that its
	// levels were not known: they may have counted slots for it.
	ended, vague bool
	died         time.Time
}

// never is an instant after every history.
var never = time.Unix(1<<40, 0)

// slotsOracle judges a history of calls in flight by the leases and the committed writes.
type slotsOracle struct {
	slotsWorld
	mu     sync.Mutex
	leases []*slotLease
	// wide are the numbers of slots that a bucket had, by entity, each from an instant on; 0 while the limit is of
	// another kind or there is no bucket.
	wide map[string][]wideSince
	// images are the present buckets, by entity. other means that the limit was of another kind.
	images     map[string]*schema.Image
	longHold   time.Duration
	violations []string
	tally      map[string]int
}

type wideSince struct {
	at time.Time
	n  int64
}

func newSlotsOracle(w slotsWorld) *slotsOracle {
	return &slotsOracle{slotsWorld: w, wide: map[string][]wideSince{}, images: map[string]*schema.Image{}, tally: map[string]int{}}
}

func (o *slotsOracle) fail(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.accuse(format, args...)
}

// accuse is fail where o.mu is held.
func (o *slotsOracle) accuse(format string, args ...any) {
	o.violations = append(o.violations, fmt.Sprintf("at %v: ", time.Now().UnixMilli())+fmt.Sprintf(format, args...))
}

func (o *slotsOracle) count(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tally[what]++
}

// holdIs notes a hold in force from now on.
func (o *slotsOracle) holdIs(hold time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.longHold = max(o.longHold, hold)
}

// takenSlots returns the taken slots of an image, and the number of all slots; false if the limit is of another kind.
func takenSlots(m *schema.Image) (taken []bucket.Epoch, free, all int64, is bool) {
	if m == nil {
		return nil, 0, 0, false
	}
	i := m.Set.Index(slots)
	if i < 0 || !m.Limits[i].IsSlots() {
		return nil, 0, 0, false
	}
	return m.Epochs(i), m.Limits[i].Tokens / 1000, m.Limits[i].Burst / 1000, true
}

// committed checks a write of a bucket: no slot is lost or made.
func (o *slotsOracle) committed(w ddbmem.Write) {
	item := w.New
	if item == nil {
		item = w.Old
	}
	key := schema.KeyOf(item)
	if !strings.HasPrefix(key.SK, "#BUCKET#") {
		return
	}
	entity := strings.TrimPrefix(key.PK, "ENTITY#")
	image, err := schema.NewLimitSets().DecodeBucket(w.New, nil, 0)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.accuse("write %d: malformed: %v", w.Seq, err)
	}
	before := o.images[entity]
	o.images[entity] = image
	taken, free, all, is := takenSlots(image)
	if is {
		sum := free
		for _, e := range taken {
			if sum += e.Slots / 1000; e.Slots < 0 {
				o.accuse("write %d: %d slots end at %d", w.Seq, e.Slots, e.End)
			}
		}
		if sum != all {
			o.accuse("write %d: %s has %d slots, free and taken are %d: %v, then %v", w.Seq, entity, all, sum, w.Old, w.New)
		}
	}
	o.wide[entity] = append(o.wide[entity], wideSince{time.Now(), all})
	if _, _, _, was := takenSlots(before); was != is || before != nil && image != nil && string(before.IncarnationID()) != string(image.IncarnationID()) {
		for _, l := range o.leases {
			l.sure[entity] = never
		}
		if before != nil && image != nil {
			o.tally["other kind"]++
		}
	}
}

// widest returns the largest number of slots that a bucket had since an instant.
func (o *slotsOracle) widest(entity string, since time.Time) (n int64) {
	list := o.wide[entity]
	for i, w := range list {
		if i+1 == len(list) || list[i+1].at.After(since) || list[i+1].at.Equal(since) {
			n = max(n, w.n)
		}
	}
	return n
}

// lost notes that a process may lose its slots, because its network is cut.
func (o *slotsOracle) lost(m *wired) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.leases {
		if l.of == m {
			for entity := range l.slots {
				l.sure[entity] = never
			}
		}
	}
}

// died notes that a process is dead.
func (o *slotsOracle) died(m *wired) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range o.leases {
		if l.of == m && l.died.IsZero() {
			l.died = time.Now()
		}
	}
}

// admitted notes a lease of a chain of entities, and checks that its buckets had room for it.
func (o *slotsOracle) admitted(m *wired, lease *dynalimit.Lease, n int64, began time.Time, chain []string) {
	l := &slotLease{Lease: lease, of: m, began: began, slots: map[string]int64{}, sure: map[string]time.Time{}, longest: o.longest}
	statuses := lease.Statuses()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range statuses {
		if !isSlots(s) {
			continue
		}
		l.slots[s.EntityID] = n
		l.longest = max(l.longest, s.Limit.Longest)
		if s.Degraded || lease.Degraded() || m.cut.Load() != nil || began.UnixMilli() <= m.whole.Load() {
			l.sure[s.EntityID] = never
		}
	}
	if l.vague = len(statuses) == 0; l.vague {
		for _, entity := range chain {
			l.slots[entity], l.sure[entity] = n, never
		}
	}
	if m.dead.Load() {
		l.died = time.Now()
	}
	o.leases = append(o.leases, l)
	if o.tally["admitted"]++; lease.Degraded() {
		o.tally["degraded"]++
	}
	for entity := range l.slots {
		if l.sure[entity].IsZero() {
			o.judgeSlots(l, entity)
		}
	}
}

// isSlots reports whether a status is that of the limit of calls in flight.
func isSlots(s dynalimit.LimitStatus) bool { return s.Limit.Name == slots && s.Limit.Hold > 0 }

// judgeSlots checks that the calls that surely have slots, with a new one, are no more than the slots. The last of their
// takes landed after each of them had begun.
func (o *slotsOracle) judgeSlots(newest *slotLease, entity string) {
	now, since, sum := time.Now(), newest.began, int64(0)
	for _, l := range o.leases {
		if l.ended || now.Sub(l.began) > o.longest-time.Second || !l.died.IsZero() && (o.faults || now.Sub(l.died) > o.leastHold()/4) {
			continue
		}
		sure, unsure := l.sure[entity]
		switch {
		case unsure && !sure.Before(newest.began):
			continue
		case !unsure && l.began.After(since):
			since = l.began
		}
		sum += l.slots[entity]
	}
	o.tally["judged"]++
	if most := o.widest(entity, since); sum > most {
		o.accuse("%d slots of %s are in use, there are %d", sum, entity, most)
	}
}

func (o *slotsOracle) leastHold() time.Duration { return 30 * time.Second }

// borrow reserves an open lease for one worker; nil without one.
func (o *slotsOracle) borrow(r *rand.Rand) *slotLease {
	o.mu.Lock()
	defer o.mu.Unlock()
	free := slices.DeleteFunc(slices.Clone(o.leases), func(l *slotLease) bool { return l.ended || l.busy.Load() })
	if len(free) == 0 {
		return nil
	}
	l := free[r.IntN(len(free))]
	l.busy.Store(true)
	return l
}

// consumed notes a further slot of a lease.
func (o *slotsOracle) consumed(l *slotLease, err error) {
	if err != nil {
		return
	}
	statuses := l.Statuses()
	o.mu.Lock()
	defer o.mu.Unlock()
	for entity := range l.slots {
		if l.vague {
			l.slots[entity]++
		}
	}
	if o.tally["consumed"]++; l.vague {
		return
	}
	for _, s := range statuses {
		if isSlots(s) {
			l.slots[s.EntityID]++
			l.sure[s.EntityID] = never
		}
	}
}

// ends notes that a lease ends from now on.
func (o *slotsOracle) ends(l *slotLease) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l.ended = true
}

// endAll ends the open leases.
func (o *slotsOracle) endAll(ctx context.Context) {
	for _, l := range o.leases {
		if l.ended || !l.died.IsZero() {
			continue
		}
		o.ends(l)
		if err := l.Rollback(ctx); err != nil {
			o.fail("an end without trouble: %v", err)
		}
	}
}

// settled compares the taken slots with the open calls, after a time without trouble.
func (o *slotsOracle) settled(entities []string, open bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, entity := range entities {
		taken, free, all, is := takenSlots(o.images[entity])
		if !is {
			continue
		}
		need, perhaps, got, now := int64(0), int64(0), int64(0), time.Now()
		for _, l := range o.leases {
			age := now.Sub(l.began)
			if l.ended || !l.died.IsZero() || age >= l.longest {
				continue
			}
			if l.vague && o.kinds || age >= o.longest {
				perhaps += l.slots[entity]
			} else {
				need += l.slots[entity]
			}
		}
		for _, e := range taken {
			if !e.IsPast(o.longHold.Milliseconds(), now.UnixMilli()) {
				got += e.Slots / 1000
			}
		}
		if o.tally["settled"]++; open && need > 0 {
			o.tally["above zero in the end"]++
		}
		if got < need || got > need+perhaps {
			o.accuse("open calls %t: of %d slots of %s are %d free, %d taken, and calls have %d to %d: %v", open, all, entity, free, got, need, need+perhaps, taken)
		}
	}
}
