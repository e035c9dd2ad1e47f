package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// at is an instant of the tables, in ms: a contest that never took anything took it long ago.
func at(ms float64) float64 { return 1e9 + ms }

// noteAt is another lane's note of an instant.
func noteAt(ms, age, spread float64) *schema.Note {
	return &schema.Note{Until: int64(at(ms)), At: int64(at(ms)), Lane: 2, Age: age, Spread: spread}
}

// A head tries at the exact time until others compete. Then it stands aside until its age is nine tenths of the note's,
// and not longer than until the bucket is full. A look that shows plenty lets it try at once.
func TestHeadStandsAside(t *testing.T) {
	head := func(came, exact, full float64) Head {
		return Head{Came: at(came), Exact: at(exact), Full: at(full), Need: 33, Line: 33, Token: 33}
	}
	seen := Contest{Lane: 1}.SeeNote(noteAt(0, 1000, 20), at(0)).RecordWin(at(0))
	plenty := head(0, 40, 5000)
	plenty.Plenty = true
	for name, c := range map[string]struct {
		contest Contest
		head    Head
		note    *schema.Note
		try     Try
		now     float64
		want    float64
	}{
		"alone":                     {Contest{}, head(0, 40, 5000), nil, Try{Chance: .5}, 0, 40},
		"the note is its own":       {Contest{Lane: 2}.SeeNote(noteAt(0, 1000, 20), at(0)), head(0, 40, 5000), noteAt(0, 1000, 20), Try{Chance: .5}, 0, 40},
		"until it is old enough":    {seen, head(0, 40, 5000), noteAt(0, 1000, 20), Try{Chance: .5}, 0, 900 + 20},
		"since its lane's take":     {seen, head(100, 40, 5000), noteAt(0, 1000, 20), Try{Chance: .5}, 100, 900 + 20},
		"its tokens come later":     {seen, head(0, 2000, 5000), noteAt(0, 1000, 20), Try{Chance: .25}, 0, 2000 + 10},
		"each of 400 lanes a while": {seen, head(0, 40, 50_000), noteAt(0, 400*33, 20), Try{}, 0, .9 * 400 * 33},
		"the try is drawn":          {seen, head(0, 40, 5000), noteAt(0, 1000, 20), Try{At: at(950), Chance: .9}, 930, 950},
		"and the age was raised":    {seen, head(0, 40, 9000), noteAt(0, 2000, 20), Try{At: at(950), Chance: .5}, 930, 1800 + 20},
		"the bucket is full":        {seen, head(0, 40, 300), noteAt(0, 1000, 20), Try{Chance: .5}, 0, 300 + 20},
		"plenty, seen 30 ms ago":    {seen.RecordLook(at(0)), plenty, noteAt(0, 1000, 20), Try{Chance: .5}, 30, 900 + 20},
		"plenty, just seen":         {seen.RecordLook(at(20)), plenty, noteAt(0, 1000, 20), Try{Chance: .5}, 30, 40},
		"no longer contended":       {seen, head(0, 40, 5000), noteAt(0, 1000, 20), Try{Chance: .5}, 10_000, 40},
		"still, by three ages":      {seen.SeeNote(noteAt(0, 4000, 20), at(0)), head(9000, 40, 50_000), noteAt(0, 1000, 20), Try{}, 11_000, 40 + 860},
	} {
		_, got := c.contest.NextTry(c.head, c.note, c.try, at(c.now))
		assert.InDelta(t, at(c.want), got, .001, name)
	}
}

// Another lane's reservation is respected until it ends, but not one that ends long after the bucket is full.
func TestReservationsAreRespected(t *testing.T) {
	reserved := noteAt(0, 100, 20)
	reserved.Until = int64(at(700))
	c := Contest{Lane: 1}.SeeNote(reserved, at(0)).RecordLook(at(0))
	h := Head{Came: at(-1000), Exact: at(0), Full: at(200), Need: 33, Line: 33, Plenty: true, Reserved: at(700), Aside: at(700)}
	_, try := c.NextTry(h, reserved, Try{}, at(0))
	assert.InDelta(t, at(700), try, .001)
	_, note := c.RecordLoss(h, reserved, at(0))
	assert.Nil(t, note, "nor does a head raise the age")
	taken := c.NextNote(h, reserved, 0, at(10))
	assert.Equal(t, reserved.Until, taken.Until, "a take of those that fit beside leaves it")
	assert.Equal(t, reserved.Lane, taken.Lane)
	_, try = Contest{Lane: 1}.NextTry(h, reserved, Try{}, at(0))
	assert.InDelta(t, at(700), try, .001, "also by a lane that competes no more")
	own := Contest{Lane: 2, until: at(1000), losses: 3}
	h.Plenty, h.Reserved, h.Aside = false, 0, 0
	tried, _ := own.NextTry(h, reserved, Try{Chance: .9}, at(0))
	assert.InDelta(t, at(0), tried.At, .001, "its owner tries without a delay")
}

// Lost tries widen the spread, then raise the age, then reserve.
func TestLostTriesRaiseAndReserve(t *testing.T) {
	h := Head{Came: at(0), Exact: at(3010), Need: 33, Line: 33, Token: 33, Full: at(9000)}
	c := Contest{Lane: 1}
	for i, want := range []float64{100, 200, 400, 800, 1000} { // without a note, up to half the head's age
		c, _ = c.RecordLoss(h, nil, at(2000))
		assert.InDelta(t, want, c.spread(h, nil, at(2000)), .001, "%d losses", i+1)
	}
	note := noteAt(2990, 400, 5)
	c = Contest{Lane: 1}.RecordWin(at(100))
	c, raise := c.RecordLoss(h, note, at(3000))
	require.Nil(t, raise)
	assert.InDelta(t, 5, c.spread(h, note, at(3000)), .001)
	c, raise = c.RecordLoss(h, noteAt(3001, 400, 5), at(3005))
	require.NotNil(t, raise)
	assert.InDelta(t, 3005, raise.Age, .001, "it is older than 1.25 times the age and 500 ms")
	assert.LessOrEqual(t, raise.Until, raise.At)
	later := noteAt(3006, 2000, 5)
	c, raise = c.RecordLoss(h, later, at(3010))
	require.NotNil(t, raise, "the third")
	assert.EqualValues(t, at(3010+33+30), raise.Until)
	assert.InDelta(t, 20, c.spread(h, later, at(3010)), .001)

	h.Came = at(2600)
	c = Contest{Lane: 1}.RecordWin(at(100))
	c, raise = c.RecordLoss(h, noteAt(2990, 100, 5), at(3000))
	require.Nil(t, raise)
	c, raise = c.RecordLoss(h, noteAt(2990, 100, 5), at(3010))
	require.NotNil(t, raise, "nobody was served between the two")
	assert.EqualValues(t, at(3010+33+30), raise.Until)
	_, raise = c.MuteNotes(at(3010)).RecordLoss(h, noteAt(2990, 100, 5), at(3020))
	assert.Nil(t, raise)
}

// A landed take moves the age towards that of its head, and the spread by the time for which tokens lay there.
func TestTakeReplacesTheNote(t *testing.T) {
	h := func(age float64) Head { return Head{Came: at(5000 - age), Need: 33, Line: 330, Token: 33} }
	c := Contest{Lane: 1}.SeeNote(noteAt(0, 1000, 20), at(4000))
	for name, want := range map[string]struct{ age, idle, nextAge, nextSpread float64 }{
		"older":                   {1400, 10, 1100, 20},
		"younger":                 {840, 10, 990, 20},
		"taken at once":           {1000, 0, 1000, 21.25},
		"taken late":              {1000, 15, 1000, 19.375},
		"tokens lie there":        {1000, 101, 875, 18.75},
		"more than the head need": {1000, 99, 1000, 18.75},
	} {
		got := c.NextNote(h(want.age), noteAt(0, 1000, 20), want.idle, at(5000))
		assert.InDelta(t, want.nextAge, got.Age, .001, name)
		assert.InDelta(t, want.nextSpread, got.Spread, .001, name)
		assert.EqualValues(t, at(5000), got.At, name)
		assert.EqualValues(t, 1, got.Lane, name)
	}
	assert.Nil(t, Contest{}.NextNote(h(1000), nil, 0, at(5000)), "alone")
	assert.InDelta(t, 4, Contest{until: at(9000)}.NextNote(h(0), noteAt(0, 0, 0), 50, at(5000)).Spread, .001, "at least 4 ms")
	assert.InDelta(t, 1000, Contest{until: at(9000)}.NextNote(h(0), noteAt(0, 0, 5000), 0, at(5000)).Spread, .001, "at most a second")
}

// A try of a contended lane looks first if its image is old, and sooner where tries lose. A rider is due itself, or
// leaves plenty.
func TestTriesLookAndRidersAreDue(t *testing.T) {
	c := Contest{Lane: 1}
	assert.Zero(t, c.TryImage(nil, at(0)))
	c = c.SeeNote(noteAt(0, 1000, 10), at(0))
	assert.EqualValues(t, 100, c.TryImage(noteAt(0, 1000, 10), at(0)))
	assert.EqualValues(t, 10, c.TryImage(noteAt(0, 1000, 20), at(0)))
	lost, _ := c.RecordLoss(Head{}, noteAt(0, 1000, 10), at(0))
	assert.EqualValues(t, 10, lost.TryImage(noteAt(0, 1000, 10), at(0)))
	assert.EqualValues(t, 100, lost.RecordWin(at(0)).TryImage(noteAt(0, 1000, 10), at(0)))

	assert.True(t, Contest{}.MayRide(at(0), false, nil, at(0)))
	assert.True(t, c.MayRide(at(0), false, noteAt(0, 1000, 10), at(900)))
	assert.False(t, c.MayRide(at(0), false, noteAt(0, 1000, 10), at(899)))
	assert.True(t, c.MayRide(at(0), true, noteAt(0, 1000, 10), at(0)))

	for lanes, want := range map[float64]float64{1: 250, 5: 250, 10: 500, 20: 1000, 600: 1000, 1200: 2000, 3000: 5000, 1 << 20: 5000} {
		assert.InDelta(t, want, c.LookEvery(Head{Line: 33}, noteAt(0, lanes*33, 10)), .001, "%g lanes", lanes)
	}
	assert.InDelta(t, 1000, c.LookEvery(Head{Line: 33, Slots: true}, noteAt(0, 33, 10)), .001)
}

// The times of a head are those of the limit for which its line waits longest.
func TestHeadOfALine(t *testing.T) {
	rate := func(n int64) bucket.Rate { return bucket.Rate{Burst: n * 1000, Amount: n * 1000, Period: 60_000} }
	image := &schema.Image{
		Set: schema.NewLimitSets().Of([]string{"rpm", "tpm"}), HasRefilled: true, Refilled: 1_000_000,
		Limits: []schema.Stored{{Rate: rate(60), Tokens: 2000}, {Rate: rate(60_000), Tokens: 30_000_000}},
	}
	cfg := &Config{Limits: []schema.Limit{{Name: "rpm", Rate: rate(60)}, {Name: "tpm", Rate: rate(60_000)}}}
	asks := []Signed{{Name: "rpm", Amount: 1000}, {Name: "tpm", Amount: 500_000}}
	line := []Signed{{Name: "rpm", Amount: 10_000}, {Name: "tpm", Amount: 5_000_000}}
	h := HeadOf(Reading{Image: image, Config: cfg, Now: 1_000_000}, 1, 5, 7, asks, line, Calls{})
	assert.Equal(t, Head{Came: 5, Exact: 7, Full: 1_058_000, Need: 1000, Line: 10_000, Token: 1000, Plenty: true, Free: true}, h)
	image.Limits[0].Tokens = 1999
	assert.False(t, HeadOf(Reading{Image: image, Config: cfg, Now: 1_000_000}, 1, 5, 7, asks, line, Calls{}).Plenty)

	for name, c := range map[string]struct {
		note            schema.Note
		exact           float64
		reserved, aside float64
	}{
		"its own":                    {schema.Note{Lane: 1, Until: 1_000_500, Needs: []int64{2000}}, 1_000_000, 0, 0},
		"over":                       {schema.Note{Lane: 2, Until: 1_000_000, Needs: []int64{2000}}, 1_000_000, 0, 0},
		"its amounts do not fit":     {schema.Note{Lane: 2, Until: 1_000_500, Needs: []int64{2000}}, 1_000_000, 1_000_500, 1_000_500},
		"they fit at the exact time": {schema.Note{Lane: 2, Until: 1_005_000, Needs: []int64{2000}}, 1_001_001, 1_005_000, 0},
		"of another limit":           {schema.Note{Lane: 2, Until: 1_000_500, Needs: []int64{0, 1000}}, 1_000_001, 1_000_500, 0},
		"longer than a lane makes":   {schema.Note{Lane: 2, Until: 1_061_001, Needs: []int64{2000}}, 1_000_000, 0, 0},
	} {
		image.Notes = &schema.Notes{Interactive: &c.note}
		r, ahead := Reading{Image: image, Config: cfg, Now: 1_000_000}, Forecast{}
		ahead.PromiseReserved(r, 1)
		h := HeadOf(r, 1, 5, c.exact, asks, line, Calls{}).StandAside(r, ahead, asks)
		assert.Equal(t, [2]float64{c.reserved, c.aside}, [2]float64{h.Reserved, h.Aside}, name)
	}
	image.Notes = nil
	view := View{Image: image, Config: cfg, Now: 1_000_100}
	var rows Rows
	rows.Take(asks)
	rows = view.Rows(rows, nil)
	assert.InDelta(t, 999+100, rows.IdleTime(false), .001)
	assert.True(t, rows.LeavePlenty(asks, false))
	rows.Take([]Signed{{Name: "rpm", Amount: 99}})
	assert.True(t, rows.LeavePlenty(asks, false), "a token of rpm is left")
	rows.Take([]Signed{{Name: "rpm", Amount: 1}})
	assert.False(t, rows.LeavePlenty(asks, false), "less than the amounts take is left")
	assert.True(t, rows.LeavePlenty([]Signed{{Name: "rpm", Amount: 10}}, false))
	rows.Take([]Signed{{Name: "rpm", Amount: 900}})
	assert.False(t, rows.LeavePlenty([]Signed{{Name: "rpm", Amount: 10}}, false), "less than 100 ms of refill is left")

	image.Limits[0], cfg.Limits[0].Rate = schema.Stored{Rate: rate(1), Tokens: 1000}, rate(1) // refills in a minute, but is full
	image.Limits[1].Tokens = 300_000
	h = HeadOf(Reading{Image: image, Config: cfg, Now: 1_000_000}, 1, 5, 7, asks, asks, Calls{})
	assert.Equal(t, Head{Came: 5, Exact: 7, Full: 1_059_700, Need: 500, Line: 500, Token: 1, Free: true}, h)
}
