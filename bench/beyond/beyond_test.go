package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The trees that docs/design/beyond.md proposes, by a tenth of their groups.
func TestTreesFitAsThePageSays(t *testing.T) {
	for _, c := range []struct {
		s                         settings
		root, leaf, writes, p99MS float64
		memory, lapsed            float64
	}{
		{s: few().scaled(), root: 105, leaf: 510, writes: 1.007, p99MS: 8},
		{s: many(), root: 470, leaf: 420, writes: 0.42, p99MS: 10, memory: 0.867, lapsed: 0.14},
	} {
		s := c.s
		s.WarmUp, s.For = 6, 4
		t.Run(s.Name, func(t *testing.T) {
			r := simulate(s)
			assert.InEpsilon(t, c.root, r.root.writes, 0.15)
			assert.InEpsilon(t, c.leaf, r.leaf.writes, 0.1)
			assert.True(t, r.leaf.fits())
			assert.InEpsilon(t, c.writes, r.writesPerMillion/1e6, 0.05)
			assert.InDelta(t, c.p99MS, float64(r.grants.P99.Microseconds())/1000, 2)
			assert.InDelta(t, c.memory, float64(r.memory)/float64(r.granted), 0.03)
			assert.InDelta(t, c.lapsed, r.lapsedShare, 0.02)
			assert.Zero(t, r.denied)
		})
	}
}

// Where less is to be had than is asked for, all of it is granted, what is denied
// costs the root nothing, and the excess is below the bound.
func TestScarceTokensAreAllGranted(t *testing.T) {
	s := with(few().scaled(), "scarce", scarce)
	r := simulate(s)
	assert.InDelta(t, 1, r.admittedOf, 0.01)
	assert.InDelta(t, 0.6, float64(r.denied)/float64(r.offered), 0.02)
	assert.Zero(t, r.lapsedShare)
	assert.LessOrEqual(t, r.excess, float64(s.Leaf)/1000)
	assert.True(t, r.root.fits())
}

// What is debited at the root is admitted, held, or has lapsed, but for what is under way.
func TestTreeAccountsForEverything(t *testing.T) {
	for _, s := range []settings{few().scaled(), with(many(), "on and off", pulsing)} {
		s.WarmUp, s.For = 2, 4
		f := newFleet(s)
		f.run()
		held := int64(0)
		for _, l := range f.leaves {
			held += l.stock.Held(limitName) / token
		}
		for i := range f.processes {
			if p := f.processes[i].stock; p != nil {
				held += p.Held(limitName) / token
			}
		}
		under := f.debited() - f.admitted - f.lapsed - held
		assert.GreaterOrEqual(t, under, int64(0))
		assert.LessOrEqual(t, float64(under), 0.1*s.calls())
	}
}

// One bucket ends at the writes of one partition: debiting ahead helps who calls often.
func TestOneBucketEndsAsThePageSays(t *testing.T) {
	assert.InEpsilon(t, 2600, most(0.3, 1000), 0.1, "few calls are not debited ahead")
	assert.InEpsilon(t, 160, most(5, 0), 0.1)
	assert.InEpsilon(t, 380, most(5, 1000), 0.1)
}

// A limit that is split for good denies a hot group what others leave; a tree does not.
func TestSplitLimitDeniesTheHotGroup(t *testing.T) {
	all := beside()
	assert.Zero(t, simulate(all[0]).denied)
	assert.Less(t, simulate(all[1]).least, 0.9)
}

func TestQueueIsInOrder(t *testing.T) {
	var q queue
	for i := range int64(200) {
		q.push(event{at: i * 7919 % 101})
	}
	last := event{at: -1}
	for range 200 {
		e := q.pop()
		assert.True(t, last.before(e))
		last = e
	}
	assert.Empty(t, q.events)
}
