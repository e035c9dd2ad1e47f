package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/dynalimit/dynalimit/internal/bucket"
	"github.com/dynalimit/dynalimit/internal/calendar"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// A charge that commutes with claims may meet tokens into which any part of the
// credit it was decided with was claimed. Whatever it accepts, the expiry covers
// the debt it leaves: deleted in debt, a bucket comes back full.
func TestTheExpiryCoversTheDebtOfALaterCharge(t *testing.T) {
	const now, credit, charge = 1_000_000, 30_000, 10_000
	rate := perSecond(1, 100)
	image := &schema.Image{
		Set: schema.NewLimitSets().Of([]string{"rpm"}), Refilled: now - 30_000, HasRefilled: true, Fingerprint: []byte("12345678"),
		TTL: (now + 200_000) / 1000, Limits: []schema.Stored{{Rate: rate, Tokens: -20_000}},
	}
	cfg := &Config{Fingerprint: image.Fingerprint, Limits: []schema.Limit{{Name: "rpm", Rate: rate}}}
	covered := rate.DebtCovered(200_000)
	require.EqualValues(t, 100_000, covered)
	for _, c := range []Crowding{{}, {Slack: 1}} { // the image is not full: no guess changes it
		p := View{Image: image, Config: cfg, Now: now}.Plan(Rows{{Name: "rpm", Amounts: bucket.Amounts{Adjust: charge}}}, Rules{Later: true, Crowding: c})
		require.Equal(t, Spend, p.Kind)
		require.True(t, p.Spend.LaterRefill)
		update := p.Spend.Limits[0].Update
		require.True(t, update.HasLow)
		for claimed := int64(0); claimed <= credit; claimed += 1000 {
			left := bucket.State{Rate: rate, Tokens: update.Low + update.Add, Refilled: now - credit + claimed}
			assert.GreaterOrEqual(t, left.Level(now), -covered, "%d of the credit had been claimed", claimed)
		}
	}
	image.Limits[0].Tokens = 95_000 // full with the credit: a guess makes it a charge below full, which commutes
	p := View{Image: image, Config: cfg, Now: now}.Plan(Rows{{Name: "rpm", Amounts: bucket.Amounts{Adjust: charge}}}, Rules{Later: true, Crowding: Crowding{Slack: 1}})
	require.True(t, p.Spend.LaterRefill)
	update := p.Spend.Limits[0].Update
	assert.EqualValues(t, 70_000, update.High, "nothing overflows, claimed or not")
	assert.EqualValues(t, charge-covered, update.Low)
	p = View{Image: image, Config: cfg, Now: now}.Plan(Rows{{Name: "rpm", Amounts: bucket.Amounts{Adjust: charge}}}, Rules{Later: true})
	assert.False(t, p.Spend.LaterRefill, "the full form does not commute with claims")
}

// A bucket that never expires bounds a charge that leaves more than half of the deepest debt. Charges of other
// processes then cannot make the debt deeper than a bucket can store.
func TestDeepChargeIsBounded(t *testing.T) {
	const charge = 10 * milli
	for _, test := range []struct {
		standing Standing
		tokens   int64
		bounded  bool
	}{
		{Current, charge - MaxDebt/2, false},
		{Current, charge - MaxDebt/2 - 1, true},
		{Newer, charge - MaxDebt/2, false},
		{Newer, charge - MaxDebt/2 - 1, true},
	} {
		m := fullBucket("rpm")
		m.Limits[0].Tokens = test.tokens
		cfg := &Config{Fingerprint: m.Fingerprint, Permanent: true, Limits: []schema.Limit{{Name: "rpm", Rate: perSecond(1, 100)}}}
		p := View{Image: m, Config: cfg, Adopt: test.standing == Newer}.Plan(Rows{{Name: "rpm", Amounts: bucket.Amounts{Adjust: charge}}}, Rules{})
		var change bucket.Update
		if p.Kind == Claim {
			change = p.Claim.Limits[0].Update
		} else {
			change = p.Spend.Limits[0].Update
		}
		require.Equal(t, map[Standing]Kind{Current: Spend, Newer: Claim}[test.standing], p.Kind)
		require.Equal(t, test.bounded, change.HasLow, "%+v", test)
		if test.bounded {
			assert.EqualValues(t, charge-MaxDebt, change.Low)
		}
	}
}

// What the filling form leaves is its burst less the slack less the charge: that
// much the expiry must cover.
func TestTheExpiryCoversTheSlack(t *testing.T) {
	const now = 1_000_000
	rate := perSecond(1, 100)
	image := &schema.Image{
		Set: schema.NewLimitSets().Of([]string{"rpm"}), Refilled: now, HasRefilled: true, Fingerprint: []byte("12345678"),
		Limits: []schema.Stored{{Rate: rate, Tokens: 100_001}},
	}
	cfg := &Config{Fingerprint: image.Fingerprint, Permanent: true, Limits: []schema.Limit{{Name: "rpm", Rate: rate}}}
	v := View{Image: image, Config: cfg, Now: now}
	charge := Rows{{Name: "rpm", Amounts: bucket.Amounts{Adjust: 150_000}}}
	exact := v.Plan(charge, Rules{})
	lower := v.Plan(charge, Rules{Crowding: Crowding{Slack: 2_000_000, Refused: 1}})
	require.EqualValues(t, -50_000, exact.Spend.Limits[0].Put)
	require.EqualValues(t, -52_000, lower.Spend.Limits[0].Put)
	assert.EqualValues(t, 1000+150, exact.Spend.TTL)
	assert.EqualValues(t, 1000+152, lower.Spend.TTL)
}

// What fits is debited: a limit that is granted is in the write, with its amount.
// A limit that the bucket does not have has no room, unless the write brings it.
func TestWhatFitsIsDebited(t *testing.T) {
	const now = 1_000_000
	rate := perSecond(1, 100)
	set := schema.NewLimitSets().Of([]string{"ghost", "rpm"})
	image := &schema.Image{
		Set: set, Refilled: now, HasRefilled: true, Fingerprint: []byte("12345678"),
		Limits: []schema.Stored{{Ghost: true, Tokens: -1000}, {Rate: rate, Tokens: 50_000}},
	}
	cfg := &Config{Fingerprint: []byte("12345678"), Permanent: true}
	for _, name := range []string{"ghost", "rpm", "tpm"} {
		cfg.Limits = append(cfg.Limits, schema.Limit{Name: name, Rate: rate})
	}
	brings := map[Standing]bool{Current: false, Older: false, Newer: true}
	for st, claims := range brings {
		for _, m := range []*schema.Image{image, nil} {
			v := View{Image: m, Config: cfg, Adopt: st == Newer, Now: now}
			if m == nil && !claims {
				continue // a bucket that is missing is made of the configuration
			}
			for _, name := range []string{"ghost", "rpm", "tpm", "none"} {
				asked := []Signed{{Name: name, Amount: 7000}}
				fits := v.Fits(asked, nil, false, nil)
				assert.Equal(t, name == "rpm" || name != "none" && claims, fits, "%s under a configuration that stands %d", name, st)
				assert.Equal(t, !fits, v.Missing(asked) != "", name)
				if !fits {
					continue
				}
				s := Rows{{Name: name, Amounts: bucket.Amounts{Take: 7000}}}
				p := v.Plan(s, Rules{})
				assert.EqualValues(t, 7000, debitedBy(&p, name), "%s under a configuration that stands %d", name, st)
			}
		}
	}
}

// debitedBy is what a plan adds to a limit's counter.
func debitedBy(p *Write, name string) int64 {
	var changes []schema.Change
	switch p.Kind {
	case Create:
		changes = p.Create.Limits
	case Spend:
		changes = p.Spend.Limits
	case Claim:
		changes = p.Claim.Limits
	case Nothing:
	}
	for _, l := range changes {
		if l.Name == name {
			return l.Consumed
		}
	}
	return 0
}

// roomView is a view of a bucket of 100 tokens that has rpm alone, under a
// configuration that has tpm as well.
func roomView(st Standing, l schema.Stored) View {
	rate := bucket.Rate{Burst: 100 * milli, Amount: 1, Period: 1000}
	image := &schema.Image{Set: schema.NewLimitSets().Of([]string{"rpm"}), Limits: []schema.Stored{l}, Fingerprint: []byte("12345678"), HasRefilled: true}
	cfg := &Config{Fingerprint: []byte("87654321"), Limits: []schema.Limit{{Name: "rpm", Rate: rate}, {Name: "tpm", Rate: rate}}}
	return View{Image: image, Config: cfg, Adopt: st == Newer}
}

// roomOf is what a take of a limit may use after back has been given back.
func roomOf(v View, name string, back int64) (room int64, known bool) {
	r, window := v.rowOf(nil, name), bucket.WindowID(0)
	if r.was != nil {
		window = r.was.WindowID()
	}
	r.GiveBack(back, window)
	return r.room(), r.known
}

// A limit that the bucket does not have has room only for a write that brings it:
// else its burst would be granted and nothing debited.
func TestLimitThatTheBucketLacksHasNoRoom(t *testing.T) {
	rate := bucket.Rate{Burst: 100 * milli, Amount: 1, Period: 1000}
	l := schema.Stored{Rate: rate, Tokens: 40 * milli}
	asked := []Signed{{Name: "tpm", Amount: 1}}
	for _, st := range []Standing{Current, Older} {
		v := roomView(st, l)
		_, known := roomOf(v, "tpm", 0)
		assert.False(t, known)
		assert.False(t, v.Fits(asked, nil, false, nil))
		room, known := roomOf(v, "rpm", 0)
		assert.True(t, known)
		assert.Equal(t, int64(40*milli), room)
	}
	v := roomView(Newer, l)
	room, known := roomOf(v, "tpm", 0)
	assert.True(t, known)
	assert.Equal(t, int64(100*milli), room)
	assert.True(t, v.Fits(asked, nil, false, nil))
	_, known = roomOf(v, "other", 0)
	assert.False(t, known)
}

// A ghost has what it was charged, from full, and no more than full.
func TestRoomOfAGhost(t *testing.T) {
	for tokens, want := range map[int64]int64{-30 * milli: 70 * milli, 0: 100 * milli, 5 * milli: 100 * milli} {
		room, known := roomOf(roomView(Newer, schema.Stored{Tokens: tokens, Ghost: true}), "rpm", 0)
		assert.True(t, known)
		assert.Equal(t, want, room)
	}
	room, _ := roomOf(roomView(Newer, schema.Stored{Tokens: -30 * milli, Ghost: true}), "rpm", 10*milli)
	assert.Equal(t, int64(80*milli), room)
	_, known := roomOf(roomView(Current, schema.Stored{Ghost: true}), "rpm", 0)
	assert.False(t, known)
}

// What is debited ahead leaves every limit at half, beside all that the write takes.
func TestLeavesHalf(t *testing.T) {
	rate := bucket.Rate{Burst: 100 * milli, Amount: 1, Period: 1000}
	v := roomView(Current, schema.Stored{Rate: rate, Tokens: 80 * milli})
	for _, c := range []struct {
		amount, take, adjust, back int64
		leaves                     bool
	}{
		{30, 0, 0, 0, true},
		{31, 0, 0, 0, false},
		{20, 10, 0, 0, true},
		{20, 11, 0, 0, false},
		{20, 0, 10, 0, true},
		{20, 0, 11, 0, false},
		{40, 0, 0, 10, true},
		{60, 0, 0, 30, false}, // full holds no more
	} {
		carried := Rows{{Name: "rpm", Amounts: bucket.Amounts{Take: c.take * milli, Adjust: c.adjust * milli, Back: c.back * milli}}}
		assert.Equal(t, c.leaves, v.Rows(carried, nil).leaveHalf([]Signed{{Name: "rpm", Amount: c.amount * milli}}), "%+v", c)
	}
	lacks := []Signed{{Name: "tpm", Amount: 1}}
	assert.False(t, v.Rows(nil, lacks).leaveHalf(lacks), "a limit that the bucket lacks")
}

// What memory denies is what does not fit the view, with the outlook of each limit, whatever
// was asked before: in the same millisecond or in another one, of the same image or of another.
func TestDenialIsWhatDoesNotFit(t *testing.T) {
	names, sets := []string{"a", "b", "c"}, schema.NewLimitSets()
	rate := bucket.Rate{Burst: 20_000, Amount: 3_000, Period: 70}
	cfg := &Config{Fingerprint: []byte("12345678")}
	for _, name := range names {
		cfg.Limits = append(cfg.Limits, schema.Limit{Name: name, Rate: rate})
	}
	rapid.Check(t, func(t *rapid.T) {
		image := func() *schema.Image {
			shown := rapid.SampledFrom([][]string{names, {"a", "b", "c", "d"}, {"0", "a", "b", "c"}, {"a", "c"}}).Draw(t, "shown")
			m := &schema.Image{Set: sets.Of(shown), HasRefilled: true, Refilled: 1_000, Fingerprint: cfg.Fingerprint}
			for range shown {
				m.Limits = append(m.Limits, schema.Stored{Rate: rate, Tokens: rapid.Int64Range(-5_000, 20_000).Draw(t, "tokens"), Ghost: rapid.IntRange(0, 9).Draw(t, "ghost") == 0})
			}
			return m
		}
		images := []*schema.Image{image(), image()}
		var d Denial
		for range 20 {
			m := rapid.SampledFrom(images).Draw(t, "image")
			now := rapid.Int64Range(999, 1_003).Draw(t, "now")
			var needs Needs
			var asked []Signed
			for i, name := range names {
				if needs[i] = rapid.Int64Range(-1, 5).Draw(t, name) * 5_000; needs[i] > 0 {
					asked = append(asked, Signed{Name: name, Amount: needs[i]})
				}
			}
			v := View{Image: m, Config: cfg, Now: now}
			denied := d.Denies(m, cfg, &needs, now)
			require.Equal(t, !v.Fits(asked, nil, false, nil) && v.Missing(asked) == "", denied)
			for i, name := range names {
				if denied && needs[i] > 0 {
					require.Equal(t, m.State(m.Set.Index(name)).Outlook(now, needs[i]), d.Outlooks[i])
				}
			}
		}
	})
}

// Of a quota the general way decides.
func TestDenialOfAQuotaIsNone(t *testing.T) {
	rate := bucket.Quota(1000, 1)
	cfg := &Config{Limits: []schema.Limit{{Name: "a", Rate: rate}}}
	m := &schema.Image{Set: schema.NewLimitSets().Of([]string{"a"}), Limits: []schema.Stored{{Rate: rate}}}
	var d Denial
	require.False(t, d.Denies(m, cfg, &Needs{1000}, 0))
}

// What is above a quota fits beside what was granted to it, less what is promised, or never: not
// at once, so that nobody tries it for ever.
func TestWaitAboveAQuota(t *testing.T) {
	hours, err := calendar.WindowsOf("hour", "")
	require.NoError(t, err)
	state := bucket.State{Rate: bucket.Quota(100, hours), Tokens: 150, Refilled: 10}
	now := int64(10 * 3_600_000)
	assert.Zero(t, Promise{}.Wait(state, now, 120))
	assert.Zero(t, Promise{Amount: 30}.Wait(state, now, 120))
	assert.EqualValues(t, bucket.Never, Promise{Amount: 50, After: state, At: now}.Wait(state, now, 120))
}

// After refusals a write takes a share of what the bucket holds. The first take always rides; a later
// one that goes beyond the share is left for the next write, and counts for the takes behind it.
func TestDeferredTake(t *testing.T) {
	rate := bucket.Rate{Burst: 100 * milli, Amount: 1, Period: 1000}
	v := roomView(Current, schema.Stored{Rate: rate, Tokens: 80 * milli})
	ask := func(tokens int64) *Ask {
		return &Ask{Take: true, Amounts: []Signed{{Name: "rpm", Amount: tokens * milli}}}
	}
	asks := []*Ask{ask(30), ask(20), ask(10), ask(25)}
	d := Decide(v, asks, nil, Rules{Halvings: 1})
	fates := make([]Fate, len(asks))
	for i, a := range asks {
		fates[i] = a.Fate
	}
	assert.Equal(t, []Fate{Carried, Deferred, Carried, Denied}, fates)
	assert.Equal(t, 2, d.Carried)
	assert.EqualValues(t, 40*milli, d.Rows.Of("rpm").Take)
	assert.EqualValues(t, 60*milli, d.Excluded[0].Before.Taken.Of("rpm").Take, "with the take that was left")
}
