package plan

import "github.com/dynalimit/dynalimit/internal/bucket"

// outcome is what a limit's update leaves, at the least that its bounds allow.
type outcome struct {
	update bucket.Update
	// base is tokens → level before takes: level = tokens + base. A full bucket
	// has its burst, less the slack of the update.
	base, burst int64
	// taken is what is taken from that level.
	taken int64
}

// decide returns the update of limit i.
func (v View) decide(i int, a bucket.Amounts, w bucket.Way) outcome {
	s := v.state(i)
	credit, _ := s.Credit(v.Now)
	u, _ := s.Decide(v.Now, a, w)
	return outcome{update: u, base: credit + a.Back, burst: s.Burst - w.Slack, taken: a.Take + a.Adjust}
}

// wayOf is how a write goes about limit i among others who write.
func (v View) wayOf(c Crowding, i int, take int64, move bool) bucket.Way {
	return c.spendWay(v.state(i).Rate, take, v.Now, move)
}

// raiseLow puts the lower bound at floor at least.
func (o *outcome) raiseLow(floor int64) {
	if !o.update.HasLow || floor > o.update.Low {
		o.update.Low, o.update.HasLow = floor, true
	}
}

// debt is the deepest debt the update can leave, given its lower bound.
func (o *outcome) debt() int64 { return max(0, -o.levelAfter(o.update.Low)) }

// levelAfter is the level that the update leaves of some tokens.
func (o *outcome) levelAfter(tokens int64) int64 {
	if o.update.Full {
		return o.burst - o.taken
	}
	return tokens + o.base - o.taken
}

// lowestFor is the least tokens from which the update leaves a debt of at most d.
func (o *outcome) lowestFor(d int64) int64 { return o.taken - o.base - d }

// boundDebt lets a charge that is deep in debt land only where what it leaves can be
// stored, whoever else charges meanwhile.
func (o *outcome) boundDebt(tokens, back int64) {
	if o.taken > 0 && !o.update.Full && tokens < o.taken-MaxDebt/2 {
		o.raiseLow(o.taken - back - MaxDebt)
	}
}

// impossible reports whether no tokens are within the bounds of the update.
func (o *outcome) impossible() bool {
	return o.update.HasLow && !o.update.Full && o.update.Low > o.update.High
}
