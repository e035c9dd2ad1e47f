package backlog

import "github.com/dynalimit/dynalimit/internal/bucket"

// Queue is one limit as a leaky queue in this process. It drains at the limit's rate. It grows with each
// admitted amount and shrinks, but not below empty, with each give-back. The zero value is empty.
type Queue struct {
	filled int64 // millitokens at the instant at
	at     int64 // ms
}

// Level returns the content of the queue at now, in millitokens, for a drain rate; 0 once it has drained. It
// changes nothing.
func (q Queue) Level(r bucket.Rate, now int64) int64 {
	credit, ok := bucket.State{Rate: r, Refilled: q.at}.Credit(now)
	if !ok {
		return 0
	}
	return max(0, q.filled-credit)
}

// drain updates the content of the queue to now. It does nothing if now is before the last update.
func (q *Queue) drain(r bucket.Rate, now int64) {
	if now > q.at {
		q.filled, q.at = q.Level(r, now), now
	}
}

// Raise drains the queue to now, and makes it hold at least level, the usage in an image of the bucket. So a
// second outage does not start with an empty queue.
func (q *Queue) Raise(r bucket.Rate, level, now int64) {
	q.drain(r, now)
	q.filled = max(q.filled, level)
}

// Fits reports whether an amount fits at now, and changes nothing; wait is the time in ms until it does. An
// amount above the burst fits an empty queue, because a share of a small burst must have room for one call.
func (q Queue) Fits(r bucket.Rate, amount, now int64) (wait int64, ok bool) {
	r.Burst = max(r.Burst, amount)
	s := bucket.State{Rate: r, Tokens: r.Burst - q.filled, Refilled: q.at}
	wait = s.Wait(max(now, q.at), amount)
	return wait, wait == 0
}

// Fill drains the queue to now, and adds an amount to it. A settlement without the bucket may be of any size,
// so the sum saturates.
func (q *Queue) Fill(r bucket.Rate, amount, now int64) {
	q.drain(r, now)
	q.filled = bucket.SaturatingAdd(q.filled, amount)
}

// Give drains the queue to now, and takes an amount out of it, but not below empty.
func (q *Queue) Give(r bucket.Rate, amount, now int64) {
	q.drain(r, now)
	q.filled = max(0, q.filled-amount)
}

// Share returns the part of a limit that a process may admit during an outage: burst and refill times share,
// from above 0 to 1. They are rounded down, the burst to at least a millitoken.
func Share(r bucket.Rate, share float64) bucket.Rate {
	if share >= 1 {
		return r
	}
	const parts = 1000 // of a millitoken, so that a small share of a slow limit still refills
	return bucket.Rate{
		Burst:  max(1, int64(float64(r.Burst)*share)),
		Amount: max(1, int64(float64(r.Amount)*share*parts)),
		Period: r.Period * parts,
	}
}
