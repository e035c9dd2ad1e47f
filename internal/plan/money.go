package plan

import (
	"slices"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// modelLimit returns the limit of a take's amounts that is counted by model: of the charged quotas of money
// that with the longest window. It is empty without one, and for a bucket that is not of a group.
func (c *Config) modelLimit(amounts []Signed) (limit string) {
	if c == nil || !c.Group {
		return ""
	}
	longest := 0
	for i := range c.Limits {
		l := &c.Limits[i]
		if c.IsMoney(i) && l.Rate.IsQuota() && c.Uncharged>>i&1 == 0 && Includes(amounts, l.Name) && int(l.Rate.Windows().Unit()) > longest {
			limit, longest = l.Name, int(l.Rate.Windows().Unit())
		}
	}
	return limit
}

// Money returns the part of write w about limits of money and alerts; nil without one, and if forbidden: the
// role must not write it. It adds the carried asks to their counters by model. It sets Model.Limit of carried
// takes, empty if the take is not counted.
func (v View) Money(w *Write, rows Rows, asks []*Ask, forbidden bool) *schema.Money {
	if w.Kind == Nothing {
		return nil
	}
	m := moneyPart{view: v, forbidden: forbidden}
	for _, a := range asks {
		if a.Model.Name == "" || a.Fate != Carried {
			continue
		}
		if a.Take && !a.Model.Fixed {
			a.Model.Limit = v.Config.modelLimit(a.Amounts)
		}
		if !m.countAsk(rows, a) && a.Take {
			a.Model.Limit = ""
		}
	}
	if !forbidden {
		m.addUnits(w)
		m.addAlerts(w)
		m.endCounters(w)
	}
	if m.IsEmpty() {
		return nil
	}
	part := m.Money // a write without the part allocates nothing
	return &part
}

// moneyPart is the part of a write about limits of money, while it is decided.
type moneyPart struct {
	schema.Money
	view View
	// forbidden means that the role must not write it.
	forbidden bool
}

// countAsk adds the amounts of an ask, without a dropped refund, to its counter by model. It returns false if
// the ask is not counted, for example without room for a new counter or with another new one in the write. Of a
// limit that the bucket lacks it counts nothing, and returns true for an adjust.
func (m *moneyPart) countAsk(rows Rows, a *Ask) bool {
	v := m.view
	if a.Model.Limit == "" || m.forbidden {
		return false
	}
	r := rows.find(a.Model.Limit)
	if r == nil || v.Image != nil && !r.known { // the bucket lacks the limit
		return !a.Take
	}
	counted := false
	for _, one := range a.Amounts {
		if one.Name != a.Model.Limit {
			continue
		}
		counter := schema.ModelCounter(one.Name, a.Model.Name, one.Passed != 0)
		if a.Take && !a.Model.Fixed && !v.Image.HasModel(counter) && !m.HasCounter(counter) && (m.addsModel() || !v.Image.RoomForModel(counter)) {
			return false
		}
		if counted = true; one.Amount != 0 && (one.Amount > 0 || !a.RefundDropped) {
			m.Add(counter, one.Amount)
		}
	}
	return counted
}

// addsModel reports whether the part already has a counter by model that the image lacks.
func (m *moneyPart) addsModel() bool {
	return slices.ContainsFunc(m.Spent, func(s schema.Spent) bool { return !m.view.Image.HasModel(s.Counter) })
}

// addUnits adds to Begun the limits of money without a unit in the bucket, and to Ended those that have one and
// are not money. It does nothing unless the bucket has the view's configuration, or the write brings it.
func (m *moneyPart) addUnits(w *Write) {
	v := m.view
	if w.Kind == GiveBack || v.Config == nil || v.Image != nil && !v.Adopt && !v.Config.Wrote(v.Image) {
		return
	}
	for i := range v.Config.Limits {
		name, money := v.Config.Limits[i].Name, v.Config.IsMoney(i)
		switch has := v.Image != nil && v.Image.HasUnit(name); {
		case money && !has:
			m.Begun = append(m.Begun, name)
		case has && !money:
			m.Ended = append(m.Ended, name)
		}
	}
}

// addAlerts adds to Alerts the configured alerts that the bucket lacks, and to Silent the limits that have
// alerts only in the bucket. It does nothing for a write that brings no configuration.
func (m *moneyPart) addAlerts(w *Write) {
	if w.Kind != Create && !(w.Kind == Claim && m.view.Adopt) {
		return
	}
	var has []string
	if image := m.view.Image; image != nil && image.Extras != nil {
		has = image.Extras.Alerts
	}
	for _, text := range m.view.Config.From().Alerts {
		if !slices.Contains(has, text) {
			m.Alerts = append(m.Alerts, text)
		}
	}
	for _, text := range has {
		if limit := schema.AlertLimit(text); !slices.ContainsFunc(m.view.Config.From().Alerts, func(of string) bool { return schema.AlertLimit(of) == limit }) {
			m.Silent = append(m.Silent, limit)
		}
	}
}

// endCounters adds to Gone the counters by model of limits that a claim removes or opens a window of, unless
// the write changes them. It also adds the marks of denials and grants of limits that the claim removes or
// replaces. Other writes end none.
func (m *moneyPart) endCounters(w *Write) {
	v := m.view
	if w.Kind != Claim || v.Image.Extras == nil {
		return
	}
	changeOf := func(limit string) *schema.Change { // nil if the image has a counter or mark of a limit that is gone
		if i := slices.IndexFunc(w.Claim.Limits, func(c schema.Change) bool { return c.Name == limit }); i >= 0 {
			return &w.Claim.Limits[i]
		}
		return nil
	}
	for _, counter := range v.Image.Models() {
		limit, _, _, _ := schema.SplitModel(counter)
		c := changeOf(limit)
		gone := c == nil || c.Kind == schema.RemoveLimit || c.Kind == schema.KeepLimit && c.Quota && c.Window.Ordinal() != int64(v.Image.Limits[c.Place].Window)
		if gone && !m.HasCounter(counter) {
			m.Gone = append(m.Gone, counter)
		}
	}
	for _, mark := range v.Image.Extras.Marks {
		limit, name := schema.SplitMark(mark)
		if c := changeOf(limit); c == nil || c.Kind == schema.RemoveLimit || c.Kind == schema.ReplaceLimit {
			m.Gone = append(m.Gone, name)
		}
	}
}
