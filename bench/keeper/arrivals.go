package keeper

import (
	"math/rand/v2"
	"time"
)

// kind is the kind of a request.
type kind int

const (
	selection kind = iota
	submission
	kinds
)

// arrival is a due request. It is due even if earlier ones are unanswered.
type arrival struct {
	kind   kind
	number int           // its number in the schedule
	due    time.Duration // since the start
}

// schedule draws arrivals at random instants. It is pure: equal seeds draw equal arrivals.
type schedule struct {
	rng   *rand.Rand
	rates [kinds]float64 // a second
	until time.Duration
	at    time.Duration
	drawn int
}

// newSchedule returns random arrivals at the given rates a second, for the time lasting. Equal
// seeds give equal schedules.
func newSchedule(seed uint64, rates [kinds]float64, lasting time.Duration) *schedule {
	return &schedule{rng: rand.New(rand.NewPCG(seed, 0)), rates: rates, until: lasting}
}

// next draws the next arrival: its kind and due time. It returns false at the end of the schedule.
func (s *schedule) next() (arrival, bool) {
	sum := s.rates[selection] + s.rates[submission]
	if sum <= 0 {
		return arrival{}, false
	}
	s.at += time.Duration(s.rng.ExpFloat64() / sum * float64(time.Second))
	if s.at >= s.until {
		return arrival{}, false
	}
	a := arrival{kind: selection, number: s.drawn, due: s.at}
	if s.rng.Float64()*sum >= s.rates[selection] {
		a.kind = submission
	}
	s.drawn++
	return a, true
}
