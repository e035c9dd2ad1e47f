package plan

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// world plays processes whose callers wait for one bucket, in virtual time in ms: one lane each, with the rules of
// this package. A request takes 2 to 8 ms there and back, and requests of different lanes overlap. Every answer
// shows the bucket. Clocks differ by up to skew. Served waiters come back at once.
type world struct {
	lanes   int
	waiters []int // of a lane, in turn
	// rate and burst are those of the bucket in tokens, a second and at once; amounts are drawn for each waiter.
	rate, burst float64
	amounts     []float64
	seconds     float64
	warm        float64
	skew        float64
	// Of the lanes late ones come only at lateAt, and the last dying end at dieAt.
	late, dying   int
	lateAt, dieAt float64
	// back is the part of an amount that is given back after half a second, on average.
	back float64

	luck  *rand.Rand
	todo  events
	order int
	all   []*worldLane
	// level of the bucket at time at, not cut at the burst before somebody writes; note is the item's.
	level, at             float64
	note                  *schema.Note
	writes, reads, claims int
	granted               float64
}

type worldLane struct {
	i      int
	line   []*worldWaiter
	level  float64 // of the image
	seen   float64 // its instant, by the true clock
	heard  float64
	looked float64
	note   *schema.Note
	skew   float64
	busy   bool
	dead   bool
	plan   int
	Contest
	wins []float64
}

type worldWaiter struct {
	came, amount, tried float64
	try                 Try
}

type event struct {
	at    float64
	order int
	do    func(t float64)
}
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// begin is the instant at which the world begins: the zero of a contest lies long ago.
const worldBegin = 1e9

func (w *world) after(t float64, do func(t float64)) {
	w.order++
	heap.Push(&w.todo, event{t, w.order, do})
}

func (w *world) trip() float64 { return 1 + 3*w.luck.Float64() }

func (w *world) levelAt(t float64) float64 {
	if t > w.at {
		w.level, w.at = w.level+w.rate*(t-w.at)/1000, t
	}
	return w.level
}

// refill is the time in which the bucket refills tokens.
func (w *world) refill(tokens float64) float64 { return tokens * 1000 / w.rate }

func (w *world) known(l *worldLane, now float64) float64 {
	return min(w.burst, l.level+w.rate*(now-l.seen+l.skew)/1000)
}

func (w *world) head(l *worldLane, now float64) Head {
	first, sum := l.line[0], 0.
	for _, o := range l.line {
		sum += o.amount
	}
	reserved := 0.
	if n := l.note; n != nil && n.Lane != l.Lane && float64(n.Until) > now && float64(n.Until) <= now+w.refill(w.burst)+noteSkew {
		reserved = float64(n.Until)
	}
	there := func(need float64) float64 { return l.seen - l.skew + w.refill(need-l.level) }
	return Head{
		Came: first.came, Exact: max(there(first.amount), first.tried), Full: max(there(w.burst), first.tried),
		Reserved: reserved, Aside: reserved, Need: w.refill(first.amount), Line: w.refill(sum), Token: w.refill(1),
		Plenty: w.known(l, now) >= min(w.burst, first.amount+max(first.amount, w.rate*leastPlenty/1000))-1e-6,
	}
}

// next plans the lane's next try or look.
func (w *world) next(l *worldLane, now float64) {
	if l.busy || l.dead || len(l.line) == 0 {
		return
	}
	t := w.when(l, now)
	if l.IsContended(now) {
		t = min(t, l.looked+l.LookEvery(w.head(l, now), l.note)*(1+.02*float64(l.i%10)))
	}
	l.plan++
	plan := l.plan
	w.after(max(now, t), func(t float64) {
		if l.plan == plan && !l.busy && !l.dead && len(l.line) > 0 {
			w.try(l, t)
		}
	})
}

func (w *world) when(l *worldLane, now float64) (at float64) {
	first := l.line[0]
	if first.try.At == 0 {
		first.try.Chance = w.luck.Float64()
	}
	l.Contest = l.SeeNote(l.note, now)
	first.try, at = l.NextTry(w.head(l, now), l.note, first.try, now)
	return at
}

func (w *world) try(l *worldLane, t float64) {
	due := w.when(l, t) <= t+1e-6
	image := l.TryImage(l.note, t)
	switch {
	case !due && l.IsContended(t) && l.looked+l.LookEvery(w.head(l, t), l.note) <= t, due && image > 0 && t-l.heard >= float64(image):
		w.look(l, t, due)
	case due:
		w.write(l, t)
	default:
		w.next(l, t)
	}
}

func (w *world) look(l *worldLane, sent float64, due bool) {
	l.busy = true
	w.after(sent+w.trip(), func(t float64) {
		w.reads++
		level, note, at := w.levelAt(t), w.note, t
		w.after(t+w.trip(), func(t float64) {
			l.busy = false
			l.level, l.seen, l.note, l.heard, l.looked = level, at, note, t, t
			l.Contest = l.RecordLook(t)
			if l.dead || len(l.line) == 0 {
				return
			}
			if w.known(l, sent) >= l.line[0].amount && w.when(l, t) <= t {
				w.write(l, t)
				return
			}
			if due {
				w.lost(l, t)
			}
			w.next(l, t)
		})
	})
}

func (w *world) lost(l *worldLane, t float64) {
	first := l.line[0]
	first.tried = t
	var note *schema.Note
	l.Contest, note = l.RecordLoss(w.head(l, t), l.note, t)
	first.try = Try{}
	if note == nil {
		return
	}
	if float64(note.Until) > t {
		first.try = Try{At: t}
	}
	seen := l.note
	w.after(t+w.trip(), func(t float64) {
		w.writes++
		if w.note == seen {
			w.note, l.note = note, note
			w.claims++
		}
	})
}

func (w *world) write(l *worldLane, sent float64) {
	known, sum, h := w.known(l, sent), 0., w.head(l, sent)
	n := 0
	for i, o := range l.line {
		if i > 0 && (sum+o.amount > known || !l.MayRide(o.came, w.refill(known-sum-o.amount) >= max(w.refill(o.amount), leastPlenty), l.note, sent)) {
			break
		}
		sum += o.amount
		n++
	}
	note := l.NextNote(h, l.note, w.refill(l.level-sum)+sent-l.seen+l.skew, sent)
	l.busy = true
	w.after(sent+w.trip(), func(t float64) {
		w.writes++
		level := w.levelAt(t)
		landed := min(w.burst, level+w.rate*l.skew/1000) >= sum-1e-6
		if landed {
			w.level = min(w.burst, level) - sum
			if note != nil {
				w.note = note
			}
			if t >= w.warm {
				w.granted += sum
			}
		}
		left, now, at := w.level, w.note, t
		w.after(t+w.trip(), func(t float64) {
			l.busy = false
			l.level, l.seen, l.note, l.heard, l.looked = left, at, now, t, t
			if !landed {
				if len(l.line) > 0 {
					w.lost(l, t)
				}
				w.next(l, t)
				return
			}
			l.Contest = l.RecordWin(t).SeeNote(l.note, t)
			if l.dead {
				return
			}
			served := l.line[:n]
			l.line = l.line[n:]
			for _, o := range l.line {
				o.try = Try{}
			}
			for _, o := range served {
				l.wins = append(l.wins, t)
				if w.back > 0 {
					w.after(t+w.luck.ExpFloat64()*500, func(t float64) {
						w.level = min(w.burst, min(w.burst, w.levelAt(t))+o.amount*w.back)
					})
				}
				w.join(l, t)
			}
			w.next(l, t)
		})
	})
}

func (w *world) join(l *worldLane, t float64) {
	l.line = append(l.line, &worldWaiter{came: t, amount: w.amounts[w.luck.IntN(len(w.amounts))], tried: t})
}

// shares plays the world, and returns the least and the largest share of a lane in any window of 10 s or 4 rounds,
// in parts of a fair one, and the part of the refill that was granted.
func (w *world) shares(seed uint64) (low, high, granted float64) {
	w.luck, w.at = rand.New(rand.NewPCG(seed, 0)), worldBegin
	if w.amounts == nil {
		w.amounts = []float64{1}
	}
	w.warm, w.seconds = worldBegin+w.warm*1000, worldBegin+w.seconds*1000
	total := 0.
	for i := range w.lanes {
		l := &worldLane{i: i, skew: w.skew * (2*w.luck.Float64() - 1), looked: worldBegin - 1000*w.luck.Float64()}
		l.Lane, l.seen = uint32(i), worldBegin
		w.all = append(w.all, l)
		came := worldBegin + 50*w.luck.Float64()
		if i < w.late {
			came = worldBegin + w.lateAt*1000
		}
		if w.lanes-i <= w.dying {
			w.after(worldBegin+w.dieAt*1000, func(float64) { l.dead, l.line = true, nil })
		} else {
			total += float64(w.waiters[i%len(w.waiters)])
		}
		w.after(came, func(t float64) {
			for range w.waiters[i%len(w.waiters)] {
				w.join(l, t)
			}
			w.next(l, t)
		})
	}
	for len(w.todo) > 0 && w.todo[0].at <= w.seconds {
		e := heap.Pop(&w.todo).(event)
		e.do(e.at)
	}
	mean := 0.
	for _, a := range w.amounts {
		mean += a / float64(len(w.amounts))
	}
	span := min(max(10_000, 4*total*mean/w.rate*1000), w.seconds-w.warm)
	low = math.Inf(1)
	for _, l := range w.all {
		if l.dead {
			continue
		}
		share := w.rate / mean * span / 1000 * float64(w.waiters[l.i%len(w.waiters)]) / total
		for start := w.warm; start+span <= w.seconds+1; start += span / 2 {
			n := 0.
			for _, t := range l.wins {
				if t >= start && t < start+span {
					n++
				}
			}
			low, high = min(low, n/share), max(high, n/share)
		}
	}
	return low, high, w.granted / (w.rate * (w.seconds - w.warm) / 1000)
}

// Lanes get shares in proportion to their waiters, however many they are.
func TestLanesShareByTheirWaiters(t *testing.T) {
	for name, c := range map[string]struct {
		world
		low, high, granted float64
	}{
		"2 of 50, 30/s":      {world{lanes: 2, waiters: []int{50}, rate: 30, burst: 60, warm: 10, seconds: 35}, .84, 1.2, .99},
		"2 of 1, 30/s":       {world{lanes: 2, waiters: []int{1}, rate: 30, burst: 60, warm: 10, seconds: 35}, .7, 1.35, .98},
		"4 of 50, 30/s":      {world{lanes: 4, waiters: []int{50}, rate: 30, burst: 60, warm: 10, seconds: 45}, .84, 1.2, .99},
		"20 of 10, 100/s":    {world{lanes: 20, waiters: []int{10}, rate: 100, burst: 200, warm: 10, seconds: 35}, .84, 1.2, .99},
		"20 of 50, 1000/s":   {world{lanes: 20, waiters: []int{50}, rate: 1000, burst: 2000, warm: 10, seconds: 25}, .84, 1.2, .99},
		"200 of 5, 200/s":    {world{lanes: 200, waiters: []int{5}, rate: 200, burst: 400, warm: 10, seconds: 45}, .75, 1.3, .99},
		"1000 of 1, 200/s":   {world{lanes: 1000, waiters: []int{1}, rate: 200, burst: 400, warm: 15, seconds: 60}, .6, 1.55, .99},
		"1 to 50 of 20":      {world{lanes: 20, waiters: []int{1, 2, 5, 10, 50}, rate: 200, burst: 400, warm: 10, seconds: 35}, .85, 1.2, .99},
		"half come late":     {world{lanes: 20, waiters: []int{5}, rate: 100, burst: 200, late: 10, lateAt: 10, warm: 12, seconds: 35}, .85, 1.15, .99},
		"half die":           {world{lanes: 20, waiters: []int{5}, rate: 100, burst: 200, dying: 10, dieAt: 15, warm: 16, seconds: 50}, .82, 1.13, .99},
		"clocks 20 ms apart": {world{lanes: 4, waiters: []int{5}, rate: 100, burst: 200, skew: 20, warm: 10, seconds: 35}, .6, 1.8, .98},
		"amounts 1 and 50":   {world{lanes: 4, waiters: []int{10}, rate: 30, burst: 60, amounts: []float64{1, 1, 1, 50}, warm: 60, seconds: 180}, .55, 1.9, .96},
		"0.3/s":              {world{lanes: 20, waiters: []int{1}, rate: .3, burst: 3, warm: 100, seconds: 600}, .25, 1.5, .96},
	} {
		for seed := range uint64(3) {
			w := c.world
			if w.skew == 0 {
				w.skew = 2
			}
			low, high, granted := w.shares(seed)
			load := float64(w.writes)/1000 + float64(w.reads)/3000
			text := fmt.Sprintf("%s, seed %d: %.2f to %.2f, granted %.3f, %d claims, load %.2f", name, seed, low, high, granted, w.claims, load/((w.seconds-worldBegin)/1000))
			assert.GreaterOrEqual(t, low, c.low, text)
			assert.LessOrEqual(t, high, c.high, text)
			assert.GreaterOrEqual(t, granted, c.granted, text)
		}
	}
}
