package plan

import "github.com/dynalimit/dynalimit/internal/bucket"

// outcome is what a limit's update leaves, at the least that its bounds allow.
type outcome struct {
	update bucket.Update
	// base is tokens → level before takes: level = tokens + base. A full bucket
	// has its burst, less the slack of the update.
	base, burst int64
	// out is what is taken from that level.
	out int64
}

// decide returns the update of limit i.
func (v View) decide(i int, a bucket.Amounts, w bucket.Way) outcome {
	s := v.state(i)
	credit, _ := s.Credit(v.Now)
	u, _ := s.Decide(v.Now, a, w)
	return outcome{update: u, base: credit + a.Back, burst: s.Burst - w.Slack, out: a.Take + a.Adjust}
}

// among is how a write goes about limit i among others who write.
func (v View) among(c Crowding, i int, take int64, move bool) bucket.Way {
	return c.way(v.state(i).Rate, take, v.Now, move)
}

// raiseLow puts the lower bound at floor at least.
func (o *outcome) raiseLow(floor int64) {
	if !o.update.HasLow || floor > o.update.Low {
		o.update.Low, o.update.HasLow = floor, true
	}
}

// debt is the deepest debt the update can leave, given its lower bound.
func (o *outcome) debt() int64 { return max(0, -o.left(o.update.Low)) }

// left is the level that the update leaves of some tokens.
func (o *outcome) left(tokens int64) int64 {
	if o.update.Full {
		return o.burst - o.out
	}
	return tokens + o.base - o.out
}

// floor is the least tokens from which the update leaves a debt of at most d.
func (o *outcome) floor(d int64) int64 { return o.out - o.base - d }

// bound lets a charge that is deep in debt land only where what it leaves can be
// stored, whoever else charges meanwhile.
func (o *outcome) bound(tokens, back int64) {
	if o.out > 0 && !o.update.Full && tokens < o.out-MaxDebt/2 {
		o.raiseLow(o.out - back - MaxDebt)
	}
}

// empty reports whether no tokens are within the bounds of the update.
func (o *outcome) empty() bool {
	return o.update.HasLow && !o.update.Full && o.update.Low > o.update.High
}
