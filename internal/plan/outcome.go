package plan

import "github.com/dynalimit/dynalimit/internal/bucket"

// outcome is what the update of a limit leaves, at the least that its bounds allow.
type outcome struct {
	update bucket.Update
	// base is what is added to the tokens before takes: the level is tokens + base.
	// burst is the level of a full bucket, less the slack of the update.
	base, burst int64
	// taken is what is taken from that level.
	taken int64
}

// decide returns the update of limit i.
func (v View) decide(i int, a bucket.Amounts, w bucket.Way) outcome {
	if v.ofQuota(i) {
		u, base, full := v.quota(i).decide(a)
		o := outcome{update: u, base: base, burst: full, taken: a.Take + a.Adjust}
		o.boundAdjust(v.Config, v.Image.Set.Names[i], a)
		return o
	}
	s := v.state(i)
	credit, _ := s.Credit(v.Now)
	u, _ := s.Decide(v.Now, a, w)
	o := outcome{update: u, base: credit + a.Back, burst: s.Burst - w.Slack, taken: a.Take + a.Adjust}
	o.boundAdjust(v.Config, v.Image.Set.Names[i], a)
	return o
}

// boundAdjust lets an adjust of a limit land only if it leaves no deeper debt than the limit may
// have, whoever else charges meanwhile.
func (o *outcome) boundAdjust(c *Config, limit string, a bucket.Amounts) {
	if a.Adjust == 0 || o.update.Full {
		return
	}
	if most, bounded := c.maxDebt(limit); bounded {
		o.raiseLow(o.lowestFor(most))
	}
}

// wayOf is the form and slack of a write to limit i beside other writers.
func (v View) wayOf(c Crowding, i int, take int64, move bool) bucket.Way {
	return c.spendWay(v.state(i).Rate, take, v.Now, move)
}

// raiseLow raises the lower bound to floor, if it is lower.
func (o *outcome) raiseLow(floor int64) {
	if !o.update.HasLow || floor > o.update.Low {
		o.update.Low, o.update.HasLow = floor, true
	}
}

// debt is the deepest debt the update can leave, given its lower bound.
func (o *outcome) debt() int64 { return max(0, -o.levelAfter(o.update.Low)) }

// levelAfter is the level that the update leaves if the bucket has the given tokens.
func (o *outcome) levelAfter(tokens int64) int64 {
	if o.update.Full {
		return o.burst - o.taken
	}
	return tokens + o.base - o.taken
}

// lowestFor is the lowest number of tokens from which the update leaves a debt of at
// most d.
func (o *outcome) lowestFor(d int64) int64 { return o.taken - o.base - d }

// boundDebt lets a charge that goes deep into debt land only if the bucket can store the
// result, whoever else charges meanwhile.
func (o *outcome) boundDebt(tokens, back int64) {
	if o.taken > 0 && !o.update.Full && tokens < o.taken-MaxDebt/2 {
		o.raiseLow(o.taken - back - MaxDebt)
	}
}

// impossible reports whether no number of tokens is within the bounds of the update.
func (o *outcome) impossible() bool {
	return o.update.HasLow && !o.update.Full && o.update.Low > o.update.High
}
