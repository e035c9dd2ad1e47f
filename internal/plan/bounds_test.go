package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/bucket"
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
	cfg := &Config{Fingerprint: image.Fingerprint, Limits: []Limit{{Name: "rpm", Rate: rate}}}
	covered := rate.DebtCovered(200_000)
	require.EqualValues(t, 100_000, covered)
	for _, c := range []Crowding{{}, {Slack: 1}} { // the image is not full: no guess changes it
		p := NewView(image, cfg, Current, now).Plan(Sums{{Name: "rpm", Amounts: bucket.Amounts{Adjust: charge}}}, Rules{Later: true, Crowding: c})
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
	p := NewView(image, cfg, Current, now).Plan(Sums{{Name: "rpm", Amounts: bucket.Amounts{Adjust: charge}}}, Rules{Later: true, Crowding: Crowding{Slack: 1}})
	require.True(t, p.Spend.LaterRefill)
	update := p.Spend.Limits[0].Update
	assert.EqualValues(t, 70_000, update.High, "nothing overflows, claimed or not")
	assert.EqualValues(t, charge-covered, update.Low)
	p = NewView(image, cfg, Current, now).Plan(Sums{{Name: "rpm", Amounts: bucket.Amounts{Adjust: charge}}}, Rules{Later: true})
	assert.False(t, p.Spend.LaterRefill, "the full form does not commute with claims")
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
	cfg := &Config{Fingerprint: image.Fingerprint, Permanent: true, Limits: []Limit{{Name: "rpm", Rate: rate}}}
	v := NewView(image, cfg, Current, now)
	charge := Sums{{Name: "rpm", Amounts: bucket.Amounts{Adjust: 150_000}}}
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
		cfg.Limits = append(cfg.Limits, Limit{Name: name, Rate: rate})
	}
	brings := map[Standing]bool{Current: false, Older: false, Newer: true}
	for st, claims := range brings {
		for _, m := range []*schema.Image{image, nil} {
			v := NewView(m, cfg, st, now)
			if m == nil && !claims {
				continue // a bucket that is missing is made of the configuration
			}
			for _, name := range []string{"ghost", "rpm", "tpm", "none"} {
				asked := []Signed{{Name: name, Amount: 7000}}
				fits := v.Fits(asked, nil, nil)
				assert.Equal(t, name == "rpm" || name != "none" && claims, fits, "%s under a configuration that stands %d", name, st)
				assert.Equal(t, !fits, v.Lacks(asked), name)
				if !fits {
					continue
				}
				s := Sums{{Name: name, Amounts: bucket.Amounts{Take: 7000}}}
				p := v.Plan(s, Rules{})
				assert.EqualValues(t, 7000, debitedBy(&p, name), "%s under a configuration that stands %d", name, st)
			}
		}
	}
}

// debitedBy is what a plan adds to a limit's counter.
func debitedBy(p *Write, name string) int64 {
	switch p.Kind {
	case Create:
		for _, l := range p.Create.Limits {
			if l.Name == name {
				return l.Consumed
			}
		}
	case Spend:
		for _, l := range p.Spend.Limits {
			if p.Spend.Seen.Set.Names[l.Index] == name {
				return l.Consumed
			}
		}
	case Claim:
		for _, l := range p.Claim.Limits {
			if l.Name == name {
				return l.Consumed
			}
		}
	case Nothing:
	}
	return 0
}
