package plan

import (
	"math"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// The waiters of several processes compete for the tokens of one bucket. Each process has a lane, and the head of
// its line asks for all of its waiters. The lanes agree by a note in the bucket's item on the age at which waiters
// are served, and on the spread of their tries. A head younger than that stands aside, so that it does not matter
// in which process a caller waits. Everything here is pure. Instants and times are in ms, with fractions.

const (
	// A head stands aside until its age is standAside of the note's.
	standAside = 0.9
	// A lane competes for contendedFor, or contendedAges times the age of the note if that is longer, after a lost
	// try or another lane's note.
	contendedFor  = 10_000
	contendedAges = 3
	// betweenTakes is the least time between two takes of a lane for each lane that competes.
	betweenTakes = 2.5
	// A landed take moves the age by ageRises of the difference to an older head, and by ageFalls of that to a
	// younger one. Where tokens lie idle, idleAge of the age is left. Tokens are idle after idleTime, or after two
	// spreads or two needs of refill, whichever is longest.
	ageRises = 1. / 4
	ageFalls = 1. / 16
	idleAge  = 7. / 8
	idleTime = 100
	// A landed take changes the spread by spreadStep at most. It aims at idleTarget, or idleToken of a token's
	// refill if that is longer, for which the tokens lay there.
	spreadStep  = 1. / 16
	idleTarget  = 10
	idleToken   = 1. / 32
	leastSpread = 4
	mostSpread  = 1000
	// Without a note the first lost try makes a lane's own spread firstSpread. With a note the third in a row
	// makes it laterSpread. Further ones double it, up to half the head's age, or mostFirst and mostLater. With a note
	// it is at most a token's refill for each lane, too.
	firstSpread = 100
	laterSpread = 20
	mostFirst   = 100
	mostLater   = 40
	// A rider that is not due leaves leastPlenty of refill, or as much as it needs if that is more. A head that
	// sees so much in a look of the last lookFresh takes at once.
	leastPlenty = 100
	lookFresh   = 20
	// A try looks first if its image is older than tryImage. Where tries lose, that is hardImage: after a part hardLoses
	// of the recent tries, or with a spread of hardSpread.
	tryImage   = 100
	hardImage  = 10
	hardLoses  = 0.2
	hardSpread = 20
	lossDecay  = 0.1
	// A contended lane looks each lookEvery. Many lanes look lookLanes times a second in all, but each one each
	// rarestLook, because a wrong note may tell of too many. Few lanes that wait for tokens look fewLooks times a second
	// in all, but none of them more often than each leastLook.
	lookEvery  = 1000
	lookLanes  = 600
	rarestLook = 5000
	fewLooks   = 20
	leastLook  = 250
	// A head that lost raiseLosses times and is older than raiseAges times the note's age and raiseTime raises it.
	raiseLosses = 2
	raiseAges   = 1.25
	raiseTime   = 500
	// A head reserves its amounts if it is due for reserveTime and a spread, and lost more often than raiseLosses. If no
	// other lane's waiter was served meanwhile, aloneTime suffices. The reservation ends reserveSlack after the time
	// in which an empty bucket refills them. It raises the age to reservedAges of the note's at most.
	reservedAges = 2
	reserveTime  = 300
	aloneTime    = 250
	reserveSlack = 30
	// mutedFor is the time for which a lane leaves no notes after one that its role may not write.
	mutedFor = 600_000
)

// Head is the head of a line by an image of its bucket.
type Head struct {
	// Came is the instant of its arrival, and Exact that at which its amounts are there.
	Came, Exact float64
	// Need, Line and Token are the times in which the scarce limit refills its amount, that of its line, and one token,
	// and Full is the instant at which that limit is full. It is the limit for which its line waits longest.
	Need, Line, Token, Full float64
	// Reserved is the end of another lane's reservation; 0 without one. Aside is the same if the head stands aside for
	// that; otherwise 0.
	Reserved, Aside float64
	// Plenty means that more than its amounts is there, so that nobody has to stand aside.
	Plenty bool
	// Slots means that the scarce limit is one of calls in flight, and Free that the image has the slots. Shared
	// means that other processes use the bucket.
	Slots, Free, Shared bool
}

// HeadOf returns the head of a lane's line by a reading. came is the instant of its arrival and exact that at
// which its amounts are there, both in ms; line sums its line's amounts. Of slots, the mean time until one
// comes back stands for the refill.
func HeadOf(r Reading, lane uint32, came, exact float64, amounts, line []Signed, calls Calls) Head {
	h := Head{Came: came, Exact: exact, Full: float64(r.Now), Plenty: true, Free: true, Shared: calls.Shared}
	if n := r.reservation(lane); n != nil {
		h.Reserved = float64(n.Until)
	}
	longest, lacking := math.Inf(-1), false // a limit that lacks the amounts is scarcer than others
	for _, a := range r.Config.Enforced(amounts) {
		state, kept := r.Worth(a.Name), r.Kept(a.Name)
		free := state.Tokens - kept
		each, enough := refillTime(state.Rate), float64(state.Burst-kept)
		if state.Period == 0 { // slots
			each, enough = calls.slotTime(state.Rate), math.Inf(1)
			h.Free = h.Free && a.Amount <= free
		}
		sum, _ := AmountOf(line, a.Name)
		sum = max(sum, a.Amount)
		wait, lacks := each*float64(sum-free), a.Amount > free
		if lacks && !lacking || lacks == lacking && wait >= longest {
			lacking, longest, h.Line, h.Need, h.Token = lacks, wait, each*float64(sum), each*float64(a.Amount), each*1000
			h.Full, h.Slots = float64(r.Now+min(state.Wait(r.Now, state.Burst), farAhead)), state.Period == 0
		}
		h.Plenty = h.Plenty && float64(free) >= min(enough, float64(a.Amount)+plentyBeside(state.Rate, a.Amount))
	}
	return h
}

// StandAside returns the head with Aside set, if its amounts do not fit at Exact. left has all promises that its take
// must leave, also for the reservation.
func (h Head) StandAside(r Reading, left Forecast, amounts []Signed) Head {
	if wait, ok := left.Wait(r, amounts); !ok || float64(r.Now+wait) > h.Exact {
		h.Aside = h.Reserved
	}
	return h
}

// plentyBeside returns the amount, in millitokens, that is plenty for others beside an amount. It is as much
// again, or the refill of 100 ms if that is more; of slots it is as much again.
func plentyBeside(r bucket.Rate, amount int64) float64 {
	if r.Period == 0 { // slots
		return float64(amount)
	}
	return max(float64(amount), leastPlenty/refillTime(r))
}

// refillTime returns the time in ms in which a limit refills a millitoken. A quota counts as refilled evenly.
func refillTime(r bucket.Rate) float64 {
	r = r.Smooth()
	return float64(r.Period) / float64(r.Amount)
}

// IdleTime returns the refill time, in ms, of the tokens that a write of rows leaves, not cut at the burst. It
// is that of the limit with the shortest time, infinite if no stored limit is taken from. A batch call does not
// count the reserve.
func (rows Rows) IdleTime(batch bool) float64 {
	idle := math.Inf(1)
	for i := range rows {
		r, kept := &rows[i], int64(0)
		if batch {
			kept = r.kept()
		}
		switch {
		case r.Take == 0 || !r.stored || r.shadow:
		case r.moves == nil:
			idle = min(idle, float64(r.level+r.back-r.Take-r.Adjust-kept)*refillTime(r.state.Rate))
		case r.level-kept <= r.Take+r.Adjust:
			idle = min(idle, 0)
		}
	}
	return idle
}

// LeavePlenty reports whether the takes of rows leave plenty of each limit of amounts: the amount again, or the
// refill of 100 ms if more. A batch call does not count the reserve. Limits in shadow, and those that the
// bucket lacks, do not count.
func (rows Rows) LeavePlenty(amounts []Signed, batch bool) bool {
	for _, a := range amounts {
		if r := rows.find(a.Name); r.stored && !r.shadow {
			left := r.room() - r.Take
			if batch {
				left -= r.kept()
			}
			if float64(left) < plentyBeside(r.state.Rate, a.Amount) {
				return false
			}
		}
	}
	return true
}

// Contest is one lane's part in the competition for the tokens of a bucket. The zero value belongs to a lane that
// has lost no try and seen no other lane's note. It tries at the exact time, and writes no note.
type Contest struct {
	// Lane is the lane's id in notes.
	Lane uint32
	// until is the end of the time for which the lane competes.
	until float64
	// took is the instant of the lane's last landed take of waiters, and tried that of its last try. looked is that of
	// the last look since it took.
	took, tried, looked float64
	// losses counts the lost tries in a row, and lossy is the recent share of them.
	losses int
	lossy  float64
	// alone means that between the last two tries no other lane's waiter was served.
	alone bool
	// muted is the end of the time for which the lane leaves no notes.
	muted float64
	// free is the instant since which images show a free slot; 0 without one. raised is that of the last note of a
	// head that waits for a slot.
	free, raised float64
}

// Try is the next try of a head: the drawn instant, 0 before it is drawn, and the chance in [0, 1) that draws it.
type Try struct{ At, Chance float64 }

// SeeNote returns the contest after an image with note n, which may be nil, was seen. A note of another lane
// makes this lane compete for ten seconds after it, or for three times its age if that is longer.
func (c Contest) SeeNote(n *schema.Note, now float64) Contest {
	if n != nil && n.Lane != c.Lane {
		c.until = max(c.until, min(now, float64(n.At))+max(contendedFor, contendedAges*n.Age))
	}
	return c
}

// MuteNotes returns the contest after a note was refused, because the role may not write it. The lane leaves no
// notes for ten minutes.
func (c Contest) MuteNotes(now float64) Contest {
	c.muted = now + mutedFor
	return c
}

// IsContended reports whether other lanes compete with this one at now.
func (c Contest) IsContended(now float64) bool { return now < c.until }

// RecordLook returns the contest after a read of the bucket was answered at now. A head that sees plenty within
// 20 ms after it takes at once.
func (c Contest) RecordLook(now float64) Contest {
	c.looked = now
	return c
}

// hasReservation reports whether note n is a reservation of this lane that has not ended at now.
func (c Contest) hasReservation(n *schema.Note, now float64) bool {
	return n != nil && n.Lane == c.Lane && float64(n.Until) > now
}

// ageOf returns the age of a note, in ms; 0 without one.
func ageOf(n *schema.Note) float64 {
	if n == nil {
		return 0
	}
	return n.Age
}

// spreadOf returns the spread of a note, in ms, at most a second; 0 without one.
func spreadOf(n *schema.Note) float64 {
	if n == nil {
		return 0
	}
	return min(n.Spread, mostSpread)
}

// lanes returns the estimated number of lanes that compete, at least 1. It is the age of the note divided by
// the time in which the bucket refills the own line.
func (h Head) lanes(n *schema.Note) float64 { return max(1, ageOf(n)/max(h.Line, 1e-3)) }

// due returns the instant until which the head stands aside, in ms. That is 0.9 of the note's age after its
// arrival, or after the lane's last take if that is earlier. Between two takes of a lane it leaves at least 2.5
// ms for each competing lane.
func (c Contest) due(h Head, n *schema.Note) float64 {
	return max(min(h.Came, c.took)+standAside*ageOf(n), c.took+betweenTakes*h.lanes(n))
}

// NextTry returns the head's try and its instant in ms: h.Exact if no lane competes, else a drawn one, not
// before h.Exact but at most a little after the bucket is full. It draws anew only if the head must stand aside
// until after t.At. A try for slots is not drawn.
func (c Contest) NextTry(h Head, n *schema.Note, t Try, now float64) (Try, float64) {
	if h.Slots {
		return t, max(c.nextSlotTry(h, n, now), h.Aside)
	}
	if h.Aside == 0 && (!c.IsContended(now) || h.Plenty && now-c.looked < lookFresh) {
		return t, h.Exact
	}
	if due := max(c.due(h, n), h.Aside); t.At == 0 || due > t.At {
		t.At = max(due, h.Exact) + c.delay(h, n, t.Chance, now)
	}
	full := max(h.Full, h.Aside, c.took) + 2*spreadOf(n)*t.Chance // nobody stands aside from a full bucket
	return t, max(h.Exact, min(t.At, full))
}

// delay returns the delay of a try after its head is due, in ms: chance times two spreads. It is 0 if no other
// lane's waiter was served between the last two tries, and while the lane has a reservation.
func (c Contest) delay(h Head, n *schema.Note, chance, now float64) float64 {
	if c.alone || c.hasReservation(n, now) {
		return 0
	}
	return 2 * chance * c.spread(h, n, now)
}

// spread returns the lane's spread of tries, in ms: the note's, or its own if that is larger. It has its own
// after one lost try without a note, or three in a row with one; each further loss doubles it.
func (c Contest) spread(h Head, n *schema.Note, now float64) float64 {
	note, own := spreadOf(n), 0.
	switch {
	case note == 0 && c.losses > 0:
		own = min(firstSpread*math.Exp2(float64(c.losses-1)), max(mostFirst, min(mostSpread, (now-h.Came)/2)))
	case note > 0 && c.losses > raiseLosses:
		own = min(laterSpread*math.Exp2(float64(c.losses-raiseLosses-1)), max(mostLater, min(mostSpread, (now-h.Came)/2, h.lanes(n)*h.Token)))
	}
	return max(note, own)
}

// MayRide reports whether a waiter behind the head, who arrived at came, may take in the same write. It may
// without other competing lanes, once it is due by the note's age, or if plenty: the write leaves enough for
// others.
func (c Contest) MayRide(came float64, plenty bool, n *schema.Note, now float64) bool {
	return plenty || !c.IsContended(now) || came+standAside*ageOf(n) <= now
}

// TryImage returns the age of an image, in ms, from which a try reads the bucket first: 100, or 10 where tries
// lose. It is 0 if the lane does not compete.
func (c Contest) TryImage(n *schema.Note, now float64) int64 {
	switch {
	case !c.IsContended(now):
		return 0
	case c.lossy > hardLoses || c.losses > 0 || spreadOf(n) >= hardSpread:
		return hardImage
	}
	return tryImage
}

// LookEvery returns the time between two reads of the bucket by a contended lane, in ms. It is a second, down
// to 250 ms for few lanes that wait for tokens, and up to five seconds above 600 lanes.
func (c Contest) LookEvery(h Head, n *schema.Note) float64 {
	lanes, least := h.lanes(n), float64(lookEvery)
	if !h.Slots {
		least = min(lookEvery, max(leastLook, lanes*1000/fewLooks))
	}
	return min(rarestLook, max(least, lanes*1000/lookLanes))
}

// RecordWin returns the contest after a take of the lane's waiters has landed at now. Its lost tries in a row
// end, and the lane's next take stands aside from now on.
func (c Contest) RecordWin(now float64) Contest {
	c.took, c.tried, c.looked = now, now, 0
	c.losses, c.alone, c.lossy, c.free = 0, false, c.lossy*(1-lossDecay), 0
	return c
}

// RecordLoss returns the contest after a try of the head came too late: its lane competes for at least ten more
// seconds. It also returns the note with which the head raises the age or reserves its amounts. The note is nil
// if neither is due, for slots, and while notes are muted or another lane has a reservation.
func (c Contest) RecordLoss(h Head, n *schema.Note, now float64) (Contest, *schema.Note) {
	c.until = max(c.until, now+max(contendedFor, contendedAges*ageOf(n)))
	c.losses, c.lossy = c.losses+1, c.lossy*(1-lossDecay)+lossDecay
	c.alone = n != nil && float64(n.At) <= c.tried
	c.tried = now
	if h.Slots || c.losses < raiseLosses || h.Reserved > 0 || now < c.muted {
		return c, nil
	}
	age, over, until := now-h.Came, now-max(c.due(h, n), h.Came), 0.
	if (c.losses > raiseLosses && over > reserveTime+spreadOf(n) || c.alone && over > aloneTime) && !c.hasReservation(n, now) {
		until = max(h.Exact, now+h.Need) + reserveSlack
	}
	if until == 0 && age <= raiseAges*ageOf(n)+raiseTime {
		return c, nil
	}
	if until > 0 && n != nil {
		age = min(age, reservedAges*ageOf(n)) // its own loss says little about other lanes
	}
	return c, &schema.Note{
		Until: int64(math.Ceil(until)), At: int64(now) + 1, Lane: c.Lane,
		Age: max(ageOf(n), age), Spread: c.nextSpread(h, n, 0, now),
	}
}

// nextSpread returns the next spread, in ms from 4 to 1000, after a write that leaves tokens which lay there
// for idle ms. It grows if they lay there for a short time, and shrinks otherwise.
func (c Contest) nextSpread(h Head, n *schema.Note, idle, now float64) float64 {
	target := max(idleTarget, idleToken*h.Token)
	step := max(-1, min(1, (target-idle)/target))
	return min(mostSpread, max(leastSpread, c.spread(h, n, now)*(1+spreadStep*step)))
}

// NextNote returns the note that a take of waiters writes: n, the bucket's last note, with the age moved
// towards the wait of h. The age falls faster if tokens lay idle, or a slot was free, for long; another lane's
// reservation stays. It is nil if the lane does not compete or may not leave notes.
func (c Contest) NextNote(h Head, n *schema.Note, idle, now float64) *schema.Note {
	if !c.IsContended(now) || now < c.muted {
		return nil
	}
	age := ageOf(n)
	switch older := now - h.Came - age; {
	case h.Slots && older < 0 && c.wasLeft(h, now): // no head is due: the age is wrong
		age += older
	case h.Slots:
		age += older * ageMoves
	case older > 0:
		age += older * ageRises
	default:
		age += older * ageFalls
	}
	if idle > max(idleTime, 2*spreadOf(n), 2*h.Need) {
		age *= idleAge
	}
	next := &schema.Note{Until: int64(now), At: int64(now), Lane: c.Lane, Age: max(0, age), Spread: c.nextSpread(h, n, idle, now)}
	if h.Reserved > 0 { // it stays
		next.Until, next.Lane, next.Needs = n.Until, n.Lane, n.Needs
	}
	return next
}
