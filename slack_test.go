package dynalimit

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// perSecond is a limit of n tokens a second and burst seconds of them at once.
func perSecond(n, burst int64) bucket.Rate {
	return bucket.Rate{Burst: burst * n * milli, Amount: n * milli, Period: 1000}
}

func TestSlackOf(t *testing.T) {
	long, short := perSecond(1000, 60), perSecond(1000, 1)
	for _, test := range []struct {
		name     string
		crowding crowding
		rate     bucket.Rate
		take     int64
		want     int64
	}{
		{"not refused", crowding{}, long, milli, 0},
		{"refused once: 32 ms of refill", crowding{slack: firstSlack, refused: 1}, long, milli, 32 * milli},
		{"at most burst/32", crowding{slack: firstSlack}, short, milli, 1_000_000 / 32},
		{"at most an eighth of what is left", crowding{slack: firstSlack}, short, 999_000, 125},
		{"nothing beside a take of everything", crowding{slack: firstSlack, refused: 20}, short, 1_000_000, 0},
		{"the third refusal: twice burst/32", crowding{refused: 3}, long, milli, 60_000_000 / 16},
		{"doubled by each more", crowding{slack: firstSlack, refused: 4}, long, milli, (60_000_000 - milli) / 8},
		{"and no further", crowding{slack: firstSlack, refused: 23}, long, milli, (60_000_000 - milli) / 8},
		{"a slow limit", crowding{slack: firstSlack}, bucket.Rate{Burst: 10_000, Amount: 10_000, Period: 86_400_000}, milli, 0},
		{"more than fits", crowding{slack: 1 << 50}, bucket.Rate{Burst: 1 << 60, Amount: 1 << 60, Period: 1}, 0, 1 << 55},
	} {
		assert.Equal(t, test.want, test.crowding.slackOf(test.rate, test.take), test.name)
	}
}

func TestGuess(t *testing.T) {
	for _, test := range []struct {
		name     string
		crowding crowding
		want     bucket.Form
	}{
		{"without slack, the image", crowding{heard: 100, trip: 5}, bucket.ByState},
		{"a recent image is believed", crowding{slack: 1, heard: 195, trip: 5}, bucket.ByState},
		{"an old one is not: add first", crowding{slack: 1, heard: 194, trip: 5}, bucket.Adding},
		{"not what was just refused", crowding{slack: 1, heard: 100, trip: 5, refused: 1}, bucket.ByState},
		{"then again", crowding{slack: 1, heard: 100, trip: 5, refused: 2}, bucket.Adding},
		{"the form that was luckier", crowding{slack: 1, heard: 100, trip: 5, adding: .2, filling: .1}, bucket.Filling},
		{"not from an image too old to tell who is there", crowding{slack: 1, heard: -801, trip: 5, adding: .2, filling: .1}, bucket.Adding},
	} {
		assert.Equal(t, test.want, test.crowding.guess(200), test.name)
	}
	w := crowding{slack: firstSlack, heard: 100, adding: .2}.way(perSecond(1, 100), 0, 200, true)
	assert.Equal(t, bucket.Way{Move: true, Slack: 32}, w, "filling is for what is full, and what is not adds")
	assert.Equal(t, 2, crowding{refused: 5}.within(2).refused, "a new write is in no hurry")
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
	cfg := &bucketConfig{fingerprint: seen.Fingerprint, permanent: true, limits: []configured{{name: "rpm", rate: perSecond(1, 100)}}}
	v := newView(seen, cfg, current, now)
	take := sums{{name: "rpm", Amounts: bucket.Amounts{Take: milli}}}
	fill, add := v.plan(take, planRules{}), v.plan(take, planRules{crowding: crowding{slack: 1, heard: 1, trip: 1}})
	claim := v.planClaim(take, crowding{})
	require.True(t, fill.spend.Limits[0].Full)
	require.False(t, add.spend.Limits[0].Full)
	require.True(t, claim.claim.Limits[0].Full)
	moved := crowdedImage(set, 5000, 1050)
	moved.Refilled++
	const most = 100_000_000 / 32 // µs
	for _, test := range []struct {
		name   string
		plan   plan
		landed bool
		after  *schema.Image
		want   meeting
	}{
		{"landed, alone", fill, true, crowdedImage(set, 98_000, 1050), meeting{landed: true, guessed: true}},
		{"landed on what others wrote", fill, true, crowdedImage(set, 98_000, 2050), meeting{landed: true, guessed: true, others: true}},
		{"not full any more", fill, false, crowdedImage(set, 98_500, 1050), meeting{guessed: true, others: true, clashed: true, most: most}},
		{"a claim, the same", claim, false, crowdedImage(set, 98_500, 1050), meeting{guessed: true, others: true, clashed: true, most: most}},
		{"still full, and nobody wrote", add, false, seen, meeting{guessed: true, rested: true, clashed: true, most: most}},
		{"still full for others", add, false, crowdedImage(set, 99_100, 2050), meeting{guessed: true, others: true, clashed: true, most: most}},
		{"full for a quarter of a second", add, false, crowdedImage(set, 99_250, 2050), meeting{guessed: true, others: true, rested: true, clashed: true, most: most}},
		{"somebody claimed", fill, false, moved, meeting{guessed: true, others: true}},
		{"refused for what is not the limit's", fill, false, seen, meeting{guessed: true}},
		{"nothing is known", fill, true, nil, meeting{landed: true, guessed: true, others: true}},
		{"made", plan{kind: planCreate}, true, seen, meeting{landed: true}},
	} {
		assert.Equal(t, test.want, meets(&test.plan, test.landed, test.after, now), test.name)
	}
}

func TestCrowdingAfter(t *testing.T) {
	clash := meeting{clashed: true, guessed: true, others: true, most: 1 << 40}
	c := crowding{}.after(clash, bucket.ByState, 1000)
	assert.Equal(t, crowding{slack: firstSlack, refused: 1, alone: 1000}, c, "32 ms of refill")
	c = c.after(clash, bucket.Adding, 1001)
	assert.Equal(t, crowding{slack: 2 * firstSlack, refused: 2, alone: 1001, adding: 1. / 8}, c, "doubled")
	little := clash
	little.most = 1000
	assert.EqualValues(t, 1000, c.after(little, bucket.ByState, 1001).slack, "to burst/32")
	landed := meeting{landed: true, guessed: true, others: true}
	c = c.after(landed, bucket.Filling, 1002)
	assert.Equal(t, crowding{slack: 62_719, alone: 1002, adding: 1./8 - fadedGuess}, c, "2 %% less by a landed write")
	for range 1000 {
		c = c.after(landed, bucket.ByState, 1003)
	}
	assert.Zero(t, c.slack, "and none in the end")

	c = crowding{slack: firstSlack, alone: 1000}
	left := meeting{clashed: true, guessed: true, most: 1 << 40}
	assert.Zero(t, c.after(left, bucket.Adding, 1010).slack, "a wrong guess, and nobody wrote")
	assert.NotZero(t, c.after(left, bucket.ByState, 1010).slack)
	rested := clash
	rested.rested = true
	assert.Zero(t, c.after(rested, bucket.Adding, 1010).slack, "nobody wrote for long")
	still := meeting{landed: true}
	assert.NotZero(t, c.after(still, bucket.ByState, 1249).slack, "nobody wrote, but not for long")
	assert.Zero(t, c.after(still, bucket.ByState, 1250).slack)
}

// atFull is some processes on one full bucket of 1,000 tokens, 1,000 a second, with
// 2 ms each way.
func atFull(t *testing.T, processes int) []*stage {
	e := memEngine(t)
	opts := &Options{Limits: []Limit{PerSecond("rpm", 1000)}}
	first := (&stage{engine: e, t: t}).on(e.repository(t, &RepositoryOptions{Now: time.Now}), opts)
	all := []*stage{first}
	for range processes - 1 {
		all = append(all, first.on(e.open(t, first.repo.table, &RepositoryOptions{Now: time.Now}), opts))
	}
	for _, s := range all {
		s.acquire("shared", Amounts{"rpm": 1})
	}
	elapse(2 * time.Second)
	e.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault {
		return ddbmem.Fault{Before: 2 * time.Millisecond, After: 2 * time.Millisecond}
	})
	return all
}

// leaves is what the bucket holds right after a take of 7 tokens, in millitokens.
func (s *stage) leaves() int64 {
	s.t.Helper()
	lease := s.acquire("shared", Amounts{"rpm": 7})
	last := lease.levels[0].last
	return last.image.State(0).Level(last.now)
}

// A process that is not refused forgoes nothing: it leaves burst less amount.
func TestAloneAFullBucketIsLeftExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := atFull(t, 1)[0]
		for range 20 {
			require.EqualValues(t, 993_000, s.leaves())
			elapse(20 * time.Millisecond)
		}
	})
}

// Processes that collide at full forgo a little, at most an eighth; once the others
// have left, the one that stays leaves the bucket exactly again, from its first take
// on, and with one request a take from the second on.
func TestLeftAloneAFullBucketIsLeftExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := atFull(t, 6)
		forgone := false
		for range 5 {
			done := make(chan int64)
			for _, s := range all {
				go func() { done <- s.leaves() }()
			}
			least := int64(1_000_000)
			for range all {
				least = min(least, <-done)
			}
			forgone = forgone || least < 1_000_000-6*7*milli
			require.GreaterOrEqual(t, least, int64(1_000_000-6*7*milli-1_000_000/8))
			elapse(40 * time.Millisecond)
		}
		require.True(t, forgone, "they collided")
		elapse(1010 * time.Millisecond) // longer than an image is believed
		for i := range 20 {
			used := all[0].used(func() { require.EqualValues(t, 993_000, all[0].leaves()) })
			if i > 0 {
				require.EqualValues(t, 1, used.Requests())
			}
			elapse(20 * time.Millisecond)
		}
	})
}

// What a lane notes of an answer: when it came, and how long it was under way.
func TestALaneHears(t *testing.T) {
	now := int64(1000)
	lanes, err := newLanes(nil, schema.NewKeys(""), 10, func() int64 { return now }, func() int64 { return 1 })
	require.NoError(t, err)
	l := lanes.of("shared", model)
	l.learn(nil, 993)
	assert.Equal(t, crowding{heard: 1000, trip: 7}, l.crowding)
	now = 1100
	l.suppose(nil, nil) // asked nobody
	assert.Equal(t, crowding{heard: 1100, trip: 7}, l.crowding)
	l.crowding.refused = 9
	assert.Equal(t, crowding{heard: 1100, trip: 7, refused: 2}, l.among(2))
}

// A claim takes from a full bucket as a spend does, and a transaction supposes what
// either leaves.
func TestPlansLeaveTheSlack(t *testing.T) {
	const now = 2000
	set := schema.NewLimitSets().Of([]string{"rpm"})
	seen := crowdedImage(set, 99_500, 50)
	cfg := &bucketConfig{fingerprint: seen.Fingerprint, permanent: true, limits: []configured{{name: "rpm", rate: perSecond(1, 100)}}}
	v := newView(seen, cfg, current, now)
	take, taken := sums{{name: "rpm", Amounts: bucket.Amounts{Take: milli}}}, []signed{{"rpm", milli}}
	others := crowding{slack: 2_000_000, heard: now}
	claim := v.planClaim(take, others)
	assert.EqualValues(t, 97_000, claim.claim.Limits[0].Put)
	spend := v.plan(take, planRules{crowding: others})
	after := v.less(taken, &spend)
	assert.EqualValues(t, 97_000, after.State(0).Level(now))
	assert.EqualValues(t, 1050, after.Limits[0].Consumed)
	spend = v.plan(take, planRules{})
	assert.EqualValues(t, 99_000, v.less(taken, &spend).State(0).Level(now))
}

// Transactions of many processes on full buckets commute too, and one that is left
// alone needs one request a call again.
func TestTransactionsAtFullCommute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := atFull(t, 20)
		all[0].family("shared", "org")
		one := func(s *stage) { s.acquire("shared", Amounts{"rpm": 1}, WithCascade(CascadeTransaction)) }
		for _, s := range all {
			s.limiter.store.forgetConfig("shared", model)
			one(s)
		}
		elapse(2 * time.Second)
		const rounds = 20
		used := all[0].used(func() {
			for range rounds {
				var group sync.WaitGroup
				for _, s := range all {
					group.Go(func() { one(s) })
				}
				group.Wait()
				elapse(10 * time.Millisecond)
			}
		})
		perGrant := float64(used.Requests()) / rounds / float64(len(all))
		t.Logf("%.2f requests a grant, %.0f write units", perGrant, used.WriteUnits())
		assert.Less(t, perGrant, 1.5)
		elapse(2 * time.Second)
		for i := range 10 {
			used := all[0].used(func() { one(all[0]) })
			if i > 0 {
				require.EqualValues(t, 1, used.Requests())
			}
			elapse(20 * time.Millisecond)
		}
	})
}
