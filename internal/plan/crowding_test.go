package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// milli is a token, in millitokens.
const milli = 1000

// perSecond is a limit of n tokens a second and burst seconds of them at once.
func perSecond(n, burst int64) bucket.Rate {
	return bucket.Rate{Burst: burst * n * milli, Amount: n * milli, Period: 1000}
}

func TestSlackOf(t *testing.T) {
	long, short := perSecond(1000, 60), perSecond(1000, 1)
	for _, test := range []struct {
		name     string
		crowding Crowding
		rate     bucket.Rate
		take     int64
		want     int64
	}{
		{"not refused", Crowding{}, long, milli, 0},
		{"refused once: 32 ms of refill", Crowding{Slack: firstSlack, Refused: 1}, long, milli, 32 * milli},
		{"at most burst/32", Crowding{Slack: firstSlack}, short, milli, 1_000_000 / 32},
		{"at most an eighth of what is left", Crowding{Slack: firstSlack}, short, 999_000, 125},
		{"nothing beside a take of everything", Crowding{Slack: firstSlack, Refused: 20}, short, 1_000_000, 0},
		{"the third refusal: twice burst/32", Crowding{Refused: 3}, long, milli, 60_000_000 / 16},
		{"doubled by each more", Crowding{Slack: firstSlack, Refused: 4}, long, milli, (60_000_000 - milli) / 8},
		{"and no further", Crowding{Slack: firstSlack, Refused: 23}, long, milli, (60_000_000 - milli) / 8},
		{"a slow limit", Crowding{Slack: firstSlack}, bucket.Rate{Burst: 10_000, Amount: 10_000, Period: 86_400_000}, milli, 0},
		{"more than fits", Crowding{Slack: 1 << 50}, bucket.Rate{Burst: 1 << 60, Amount: 1 << 60, Period: 1}, 0, 1 << 55},
	} {
		assert.Equal(t, test.want, test.crowding.slackOf(test.rate, test.take), test.name)
	}
}

func TestGuess(t *testing.T) {
	for _, test := range []struct {
		name     string
		crowding Crowding
		want     bucket.Form
	}{
		{"without slack, the image", Crowding{Heard: 100, Trip: 5}, bucket.ByState},
		{"a recent image is believed", Crowding{Slack: 1, Heard: 195, Trip: 5}, bucket.ByState},
		{"an old one is not: add first", Crowding{Slack: 1, Heard: 194, Trip: 5}, bucket.Adding},
		{"not what was just refused", Crowding{Slack: 1, Heard: 100, Trip: 5, Refused: 1}, bucket.ByState},
		{"then again", Crowding{Slack: 1, Heard: 100, Trip: 5, Refused: 2}, bucket.Adding},
		{"the form that was luckier", Crowding{Slack: 1, Heard: 100, Trip: 5, adding: .2, filling: .1}, bucket.Filling},
		{"not from an image too old to tell who is there", Crowding{Slack: 1, Heard: -801, Trip: 5, adding: .2, filling: .1}, bucket.Adding},
	} {
		assert.Equal(t, test.want, test.crowding.guessForm(200), test.name)
	}
	w := Crowding{Slack: firstSlack, Heard: 100, adding: .2}.spendWay(perSecond(1, 100), 0, 200)
	assert.Equal(t, bucket.Way{Slack: 32}, w, "filling is for what is full, and what is not adds")
}

// crowdedImage is a bucket of one limit, with so many tokens and so much consumed.
func crowdedImage(set *schema.LimitSet, tokens, consumed int64) *schema.Image {
	return &schema.Image{
		Set: set, Refilled: 1000, HasRefilled: true, Fingerprint: []byte("12345678"),
		Limits: []schema.Stored{{Rate: perSecond(1, 100), Tokens: tokens, Consumed: consumed}},
	}
}

func TestMeets(t *testing.T) {
	const now = 2000 // a token has been refilled
	set := schema.NewLimitSets().Of([]string{"rpm"})
	seen := crowdedImage(set, 99_500, 50)
	cfg := &Config{Fingerprint: seen.Fingerprint, Permanent: true, Limits: []schema.Limit{{Name: "rpm", Rate: perSecond(1, 100)}}}
	v := View{Image: seen, Config: cfg, Now: now}
	take := Rows{{Name: "rpm", Amounts: bucket.Amounts{Take: milli}}}
	fill, add := v.Plan(take, Rules{}), v.Plan(take, Rules{Crowding: Crowding{Slack: 1, Heard: 1, Trip: 1}})
	claim := v.planClaim(take, Crowding{})
	require.True(t, fill.Spend.Limits[0].Full)
	require.False(t, add.Spend.Limits[0].Full)
	require.True(t, claim.Claim.Limits[0].Full)
	moved := crowdedImage(set, 5000, 1050)
	moved.Refilled++
	const most = 100_000_000 / 32 // µs
	for _, test := range []struct {
		name   string
		plan   Write
		landed bool
		after  *schema.Image
		want   Evidence
	}{
		{"landed, alone", fill, true, crowdedImage(set, 98_000, 1050), Evidence{landed: true, guessed: true}},
		{"landed on what others wrote", fill, true, crowdedImage(set, 98_000, 2050), Evidence{landed: true, guessed: true, others: true}},
		{"not full any more", fill, false, crowdedImage(set, 98_500, 1050), Evidence{guessed: true, others: true, refusedAtFull: true, mostSlack: most}},
		{"a claim, the same", claim, false, crowdedImage(set, 98_500, 1050), Evidence{guessed: true, others: true, refusedAtFull: true, mostSlack: most}},
		{"still full, and nobody wrote", add, false, seen, Evidence{guessed: true, longFull: true, refusedAtFull: true, mostSlack: most}},
		{"still full for others", add, false, crowdedImage(set, 99_100, 2050), Evidence{guessed: true, others: true, refusedAtFull: true, mostSlack: most}},
		{"full for a quarter of a second", add, false, crowdedImage(set, 99_250, 2050), Evidence{guessed: true, others: true, longFull: true, refusedAtFull: true, mostSlack: most}},
		{"somebody claimed", fill, false, moved, Evidence{guessed: true, others: true}},
		{"refused for what is not the limit's", fill, false, seen, Evidence{guessed: true}},
		{"nothing is known", fill, true, nil, Evidence{landed: true, guessed: true, others: true}},
		{"made", Write{Kind: Create}, true, seen, Evidence{landed: true}},
	} {
		assert.Equal(t, test.want, EvidenceOf(&test.plan, test.landed, test.after, now), test.name)
	}
}

func TestCrowdingAfter(t *testing.T) {
	clash := Evidence{refusedAtFull: true, guessed: true, others: true, mostSlack: 1 << 40}
	c := Crowding{}.After(clash, bucket.ByState, 1000)
	assert.Equal(t, Crowding{Slack: firstSlack, Refused: 1, othersAt: 1000}, c, "32 ms of refill")
	c = c.After(clash, bucket.Adding, 1001)
	assert.Equal(t, Crowding{Slack: 2 * firstSlack, Refused: 2, othersAt: 1001, adding: 1. / 8}, c, "doubled")
	little := clash
	little.mostSlack = 1000
	assert.EqualValues(t, 1000, c.After(little, bucket.ByState, 1001).Slack, "to burst/32")
	landed := Evidence{landed: true, guessed: true, others: true}
	c = c.After(landed, bucket.Filling, 1002)
	assert.Equal(t, Crowding{Slack: 62_719, othersAt: 1002, adding: 1./8 - guessDecay}, c, "2 %% less by a landed write")
	for range 1000 {
		c = c.After(landed, bucket.ByState, 1003)
	}
	assert.Zero(t, c.Slack, "and none in the end")

	c = Crowding{Slack: firstSlack, othersAt: 1000}
	left := Evidence{refusedAtFull: true, guessed: true, mostSlack: 1 << 40}
	assert.Zero(t, c.After(left, bucket.Adding, 1010).Slack, "a wrong guess, and nobody wrote")
	assert.NotZero(t, c.After(left, bucket.ByState, 1010).Slack)
	rested := clash
	rested.longFull = true
	assert.Zero(t, c.After(rested, bucket.Adding, 1010).Slack, "nobody wrote for long")
	still := Evidence{landed: true}
	assert.NotZero(t, c.After(still, bucket.ByState, 1249).Slack, "nobody wrote, but not for long")
	assert.Zero(t, c.After(still, bucket.ByState, 1250).Slack)
}

// A claim takes from a full bucket as a spend does, and a transaction supposes what
// either leaves.
func TestPlansLeaveTheSlack(t *testing.T) {
	const now = 2000
	set := schema.NewLimitSets().Of([]string{"rpm"})
	seen := crowdedImage(set, 99_500, 50)
	cfg := &Config{Fingerprint: seen.Fingerprint, Permanent: true, Limits: []schema.Limit{{Name: "rpm", Rate: perSecond(1, 100)}}}
	v := View{Image: seen, Config: cfg, Now: now}
	take, taken := Rows{{Name: "rpm", Amounts: bucket.Amounts{Take: milli}}}, []Signed{{Name: "rpm", Amount: milli}}
	others := Crowding{Slack: 2_000_000, Heard: now}
	claim := v.planClaim(v.Rows(take, nil), others)
	assert.EqualValues(t, 97_000, claim.Claim.Limits[0].Put)
	spend := v.Plan(take, Rules{Crowding: others})
	after := v.After(taken, nil, &spend)
	assert.EqualValues(t, 97_000, after.State(0).Level(now))
	assert.EqualValues(t, 1050, after.Limits[0].Consumed)
	spend = v.Plan(take, Rules{})
	assert.EqualValues(t, 99_000, v.After(taken, nil, &spend).State(0).Level(now))
	put := func(refusals int) int64 {
		asks := []*Ask{{Take: true, Amounts: taken, Refusals: refusals}}
		d := Decide(v, asks, nil, Rules{Crowding: Crowding{Refused: 5}})
		return d.Write.Spend.Limits[0].Put
	}
	assert.EqualValues(t, 99_000/urgentShare, put(0)-put(5), "a new write is in no hurry")
}

const (
	ms      = 1000 // µs
	minute  = 60 * second
	started = 1000 * second
)

func TestIntervalAfterThrottling(t *testing.T) {
	p := Pacing{}.ThrottleWrite(started, 6*ms, 0)
	assert.EqualValues(t, 9*ms, p.Interval(started), "1.5 round trips")
	assert.EqualValues(t, 6667, p.Interval(started+10*second), "3 % less a second")
	p = p.ThrottleWrite(started+10*second, 2*ms, 0)
	assert.EqualValues(t, 8333, p.Interval(started+10*second), "a quarter more")
	for range 100 {
		p = p.ThrottleWrite(started+10*second, 6*ms, 0)
	}
	assert.EqualValues(t, 2*second, p.Interval(started+10*second), "and no more than two seconds")

	p = Pacing{}.ThrottleWrite(started, 6*ms, 0)
	assert.Positive(t, p.Interval(started+minute))
	assert.Zero(t, p.Interval(started+2*minute), "below a millisecond it is none")
	assert.False(t, p.IsOver(started+minute))
	assert.True(t, p.IsOver(started+2*minute))
	p = Pacing{}.ThrottleRead(started, 0)
	assert.False(t, p.IsOver(started+minute-1), "reads too")
	assert.True(t, p.IsOver(started+minute))
}

func TestPausesAfterThrottling(t *testing.T) {
	p, now := Pacing{}, int64(started)
	for i, want := range []int64{5, 10, 20, 40, 80, 160, 320, 500, 500} {
		p = p.ThrottleRead(now, 0)
		assert.Equal(t, want*ms, p.Left(now), "half of it at least, throttled %d times before", i)
	}
	assert.EqualValues(t, 999_500, p.ThrottleRead(now, 0.999).Left(now), "up to all of it")
	p = p.RecordImage(nil, now)
	assert.EqualValues(t, 5*ms, p.ThrottleRead(now, 0).Left(now), "an answer ends the row")

	p = Pacing{throttledInterval: second, throttledAt: now}.ThrottleWrite(now, 0, 0)
	assert.EqualValues(t, 1250*ms/4, p.Left(now), "half the interval is longer")
}

func TestTurns(t *testing.T) {
	p := Pacing{}.ThrottleWrite(started, 6*ms, 0).RecordStart(started + 10*ms)
	assert.InDelta(t, 9*ms, p.Left(started+10*ms), 5, "an interval after the last start, less what has faded")
	assert.InDelta(t, ms, p.Left(started+18*ms), 5)
	assert.LessOrEqual(t, p.RecordRefusal(started+11*ms).Left(started+11*ms), int64(0), "what was refused goes again at once")
	assert.Positive(t, p.RecordRefusal(started+11*ms).RecordStart(started+11*ms).Left(started+12*ms))
}

func TestFairPart(t *testing.T) {
	set := schema.NewLimitSets().Of([]string{"rpm", "tpm"})
	image := func(rpm, tpm int64) *schema.Image {
		return &schema.Image{Set: set, Limits: []schema.Stored{
			{Rate: bucket.Rate{Burst: 100}, Consumed: rpm}, {Rate: bucket.Rate{Burst: 10_000}, Consumed: tpm},
		}}
	}
	own := Rows{{Name: "rpm", Amounts: bucket.Amounts{Take: 1}}, {Name: "tpm", Amounts: bucket.Amounts{Take: 200, Back: 100}}}
	p := Pacing{}.ThrottleWrite(started, 6*ms, 0).RecordImage(image(0, 0), started)
	p = p.RecordWrite(own).RecordImage(image(1, 100), started+99*ms)
	assert.EqualValues(t, 8973, p.Interval(started+99*ms), "too soon for a sample")
	p = p.RecordImage(image(40, 4000), started+100*ms)
	assert.EqualValues(t, 50*ms, p.Interval(started+100*ms), "a fortieth of 800 writes a second")
	assert.Less(t, p.RecordDenial(started+100*ms).Interval(started+2100*ms), int64(9*ms), "not of a lane that denies")
	assert.EqualValues(t, 50*ms, p.RecordDenial(started+100*ms).Interval(started+2101*ms), "again two seconds later")
	assert.EqualValues(t, 50*ms, p.Interval(started+minute-1))
	assert.Less(t, p.Interval(started+minute), int64(9*ms), "a minute after throttling the partition is believed")

	q := p.RecordWrite(own).RecordImage(image(440, 44_000), started+second)
	assert.EqualValues(t, 100*ms, q.Interval(started+second), "at most")
	gone := image(0, 0)
	gone.Incarnation = []byte("another")
	for name, image := range map[string]*schema.Image{"another bucket": gone, "other limits": {Set: schema.NewLimitSets().Of([]string{"rpm"})}, "none": nil} {
		q = p.RecordImage(image, started+second)
		assert.EqualValues(t, 50*ms, q.Interval(started+second), "%s: its counters say nothing of those before", name)
	}
	q = Pacing{}.ThrottleWrite(started, 6*ms, 0).RecordImage(image(0, 0), started).RecordImage(image(40, 4000), started+second)
	assert.Less(t, q.Interval(started+second), int64(9*ms), "a lane that took nothing has no part to keep to")
}
