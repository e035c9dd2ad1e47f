package plan

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// Projected returns a copy of the image as a claim of the view's configuration would leave it at the view's
// time, refill included. It leaves out the limits that the claim adds. It returns the image itself, which may
// be nil, if the view brings no configuration.
func (v View) Projected() *schema.Image {
	if v.Image == nil || !v.Adopt {
		return v.Image
	}
	after := *v.Image
	after.Plain = false // a limit may become a quota
	after.Refilled, after.Limits = v.Now, slices.Clone(after.Limits)
	for i := range after.Limits {
		l, r := &after.Limits[i], v.rowOf(nil, after.Set.Names[i])
		if r.stored {
			*l = l.InWindow(r.window)
			l.Life = r.life
		}
		if r.known {
			l.Tokens, l.Ghost = min(r.most, r.level), false
		}
		if r.to != nil {
			l.Rate, l.Capacity = r.to.Rate, r.to.Capacity
		}
	}
	return &after
}

// After returns a copy of the image, which must not be nil, as the write p leaves it at the view's time. It
// debits taken, adds taken to the counters, and adds the limits that p adds. Amounts also listed in beyond go
// to the counter alone.
func (v View) After(taken, beyond []Signed, p *Write) *schema.Image {
	after := *v.Projected()
	after.Limits = slices.Clone(after.Limits)
	for i := range after.Limits {
		name := after.Set.Names[i]
		if at := slices.IndexFunc(taken, func(s Signed) bool { return s.Name == name }); at >= 0 {
			amount, passed := taken[at].Amount, taken[at].Passed
			state := after.State(i)
			if state.IsQuota() {
				state = state.At(v.Now)
				after.Limits[i] = after.Limits[i].InWindow(state.Refilled)
			}
			credit, _ := state.Credit(v.Now) // the statuses add it again
			counted, _ := AmountOf(beyond, name)
			after.Limits[i].Tokens = state.Level(v.Now) - (amount - counted) - credit
			after.Limits[i].Consumed += amount
			after.Limits[i].Passed += passed
		}
	}
	if p.Kind == Spend {
		for i := range p.Spend.Limits {
			if c := &p.Spend.Limits[i]; c.Full { // less its slack
				after.Limits[c.Place].Tokens = c.Put
			}
		}
	}
	if v.Adopt {
		after.Set, after.Limits = v.withAdded(after.Limits, taken, beyond)
	}
	return &after
}

// withAdded returns limits, those of the view's image, with the configured limits that the image lacks, and the
// set of all their names. An added limit starts full less its amount in taken; the part in beyond costs no
// tokens.
func (v View) withAdded(limits []schema.Stored, taken, beyond []Signed) (*schema.LimitSet, []schema.Stored) {
	names := slices.Clone(v.Image.Set.Names)
	for _, c := range v.Config.Limits {
		i, known := slices.BinarySearch(names, c.Name)
		if known {
			continue
		}
		amount, _ := AmountOf(taken, c.Name)
		counted, _ := AmountOf(beyond, c.Name)
		names = slices.Insert(names, i, c.Name)
		limits = slices.Insert(limits, i, schema.Stored{Rate: c.Rate, Tokens: c.Rate.Burst - (amount - counted), Capacity: c.Capacity}.InWindow(c.Rate.WindowAt(v.Now)))
	}
	var quotas, slots []string
	for i := range limits {
		if limits[i].IsQuota() {
			quotas = append(quotas, names[i])
		}
		if limits[i].IsSlots() {
			slots = append(slots, names[i])
		}
	}
	return schema.NewLimitSets().OfKinds(names, quotas, slots...), limits
}
