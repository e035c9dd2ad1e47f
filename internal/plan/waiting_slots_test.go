package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// slotHead is a head that came at 0 and waits for one of 20 slots, with calls of five seconds.
func slotHead(free, shared bool) Head {
	return Head{Came: at(0), Exact: at(0), Need: 250, Line: 500, Token: 250, Slots: true, Free: free, Shared: shared}
}

// A head takes a free slot once it is due, or if more are free, or if nobody took it for a while.
func TestHeadTakesASlotOnceItIsDue(t *testing.T) {
	seen := Contest{Lane: 1}.SeeNote(noteAt(0, 10_000, 20), at(0))
	plenty := slotHead(true, true)
	plenty.Plenty = true
	free, _ := seen.SeeSlots(slotHead(true, true), noteAt(0, 10_000, 20), at(1000))
	for name, c := range map[string]struct {
		contest   Contest
		head      Head
		now, want float64
	}{
		"nobody competes":     {Contest{}, slotHead(true, true), 100, 0},
		"another is older":    {seen, slotHead(true, true), 100, 9000},
		"more are free":       {seen, plenty, 100, 0},
		"none is free":        {seen, slotHead(false, true), 100, 100 + farOff},
		"free, just seen":     {free, slotHead(true, true), 1149, 9000},
		"free, seen long ago": {free, slotHead(true, true), 1150, 0},
	} {
		_, try := c.contest.NextTry(c.head, noteAt(0, 10_000, 20), Try{}, at(c.now))
		assert.InDelta(t, at(c.want), try, .001, name)
	}
}

// A due head looks more and more rarely while no slot is free, and one that is not due, or has the bucket for itself,
// each second.
func TestHeadLooksForASlot(t *testing.T) {
	c, note := Contest{Lane: 1}.SeeNote(noteAt(0, 1000, 20), at(0)), noteAt(0, 1000, 20)
	few := slotHead(false, true)
	few.Token = 60_000
	for name, x := range map[string]struct {
		head       Head
		seen, want float64
	}{
		"not due":               {slotHead(false, true), 0, 900 + 25},
		"not due for long":      {slotHead(false, true), -500, 562.5},
		"due":                   {slotHead(false, true), 900, 900 + 25},
		"due for 100 ms":        {slotHead(false, true), 1000, 1000 + 75},
		"due for a second":      {slotHead(false, true), 1900, 1900 + 100},
		"one slot of a minute":  {few, 4900, 4900 + 400},
		"the bucket for itself": {slotHead(false, false), 0, 1062.5},
	} {
		got := c.NextLook(x.head, note, at(x.seen), .5, at(x.seen))
		assert.InDelta(t, at(x.want), got, .001, name)
	}
}

// A head without a free slot competes, and raises an age that is far below its own, once a second.
func TestHeadWithoutASlotRaisesTheAge(t *testing.T) {
	c, note := Contest{Lane: 1}.SeeSlots(slotHead(false, true), nil, at(500))
	assert.True(t, c.IsContended(at(10_499)))
	assert.Nil(t, note)
	c, note = c.SeeSlots(slotHead(false, true), nil, at(501))
	require.NotNil(t, note)
	assert.InDelta(t, 501, note.Age, .001)
	assert.Equal(t, int64(at(501)), note.Until, "and reserves nothing")
	_, note = c.SeeSlots(slotHead(false, true), nil, at(1500))
	assert.Nil(t, note)
	_, note = c.SeeSlots(slotHead(false, true), noteAt(501, 501, 4), at(1501))
	assert.NotNil(t, note)
	_, note = c.SeeSlots(slotHead(false, true), noteAt(501, 1501, 4), at(1501))
	assert.Nil(t, note)
	_, note = c.MuteNotes(at(1501)).SeeSlots(slotHead(false, true), noteAt(501, 501, 4), at(1501))
	assert.Nil(t, note)
	c, _ = Contest{Lane: 1}.SeeSlots(slotHead(false, false), nil, at(501))
	assert.False(t, c.IsContended(at(501)), "alone")
	_, note = Contest{Lane: 1, losses: 5}.RecordLoss(slotHead(false, true), noteAt(0, 10, 4), at(9000))
	assert.Nil(t, note, "nor does a lost try reserve a slot")
	next := seenBy(2).NextNote(slotHead(true, true), noteAt(0, 1000, 20), 0, at(1800))
	assert.InDelta(t, 1100, next.Age, .001)
	next = seenBy(2).NextNote(slotHead(true, true), noteAt(0, 1000, 20), 0, at(200))
	assert.InDelta(t, 900, next.Age, .001)
	left, _ := seenBy(2).SeeSlots(slotHead(true, true), noteAt(0, 9000, 20), at(50))
	next = left.NextNote(slotHead(true, true), noteAt(0, 9000, 20), 0, at(199))
	assert.InDelta(t, 7899.875, next.Age, .001)
	next = left.NextNote(slotHead(true, true), noteAt(0, 9000, 20), 0, at(200))
	assert.InDelta(t, 200, next.Age, .001, "nobody was due for the slot")
}

// seenBy is the contest of a lane that has seen the note of another.
func seenBy(lane uint32) Contest {
	return Contest{Lane: lane + 1}.SeeNote(noteAt(0, 1000, 20), at(0))
}

// The limit of slots is that of the head if a slot is what it lacks.
func TestHeadOfALineOfSlots(t *testing.T) {
	rate := bucket.Rate{Burst: 60_000, Amount: 60_000, Period: 60_000}
	image := &schema.Image{
		Set: schema.NewLimitSets().OfKinds([]string{"inflight", "rpm"}, nil, "inflight"), HasRefilled: true, Refilled: 1_000_000,
		Limits: []schema.Stored{{Rate: bucket.Slots(20_000, 1)}, {Rate: rate, Tokens: 5000}},
	}
	cfg := &Config{Limits: []schema.Limit{{Name: "inflight", Rate: bucket.Slots(20_000, 60_000)}, {Name: "rpm", Rate: rate}}}
	asks := []Signed{{Name: "inflight", Amount: 1000}, {Name: "rpm", Amount: 1000}}
	line := []Signed{{Name: "inflight", Amount: 40_000}, {Name: "rpm", Amount: 40_000}}
	head := func() Head {
		return HeadOf(Reading{Image: image, Config: cfg, Now: 1_000_000}, 1, 5, 7, asks, line, Calls{Mean: 5000, Shared: true})
	}
	h := head()
	assert.True(t, h.Slots && !h.Free && h.Shared && !h.Plenty)
	assert.InDelta(t, 250, h.Token, .001)
	assert.InDelta(t, 10_000, h.Line, .001)
	image.Limits[0].Tokens = 1000
	h = head()
	assert.False(t, h.Slots, "the line lacks tokens for longer")
	assert.True(t, h.Free)
	image.Limits[1].Tokens = 60_000
	assert.True(t, head().Slots)
	assert.False(t, head().Plenty)
	image.Limits[0].Tokens = 2000
	assert.True(t, head().Plenty)
	image.Limits[0].Tokens, image.Limits[1].Tokens = 0, 0
	assert.False(t, head().Slots, "tokens come later than a slot")
	asks = asks[:1]
	assert.InDelta(t, 2000, HeadOf(Reading{Image: image, Config: cfg, Now: 1_000_000}, 1, 5, 7, asks, asks, Calls{}).Token, .001)
}
