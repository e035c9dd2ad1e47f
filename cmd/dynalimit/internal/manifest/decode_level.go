package manifest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const levelHelp = "a level, such as {limits: {rpm: 100}}, {unlimited: true} or {blocked: true}"

// level reads one level.
func (d *decoder) level(at dynalimit.Scope) func(*node, string) {
	return func(n *node, path string) {
		var c dynalimit.LimitConfig
		before := len(d.problems)
		if _, twice := d.m.Configs[at]; twice {
			d.wrong(n.line, n.column, path, "is the default, which stands here twice: leave 'default' or '%s' out", schema.DefaultResource)
			return
		}
		d.fields(n, path, levelHelp,
			field{"limits", d.limits(&c.Limits)},
			field{"unlimited", d.truth(&c.Unlimited)},
			field{"blocked", d.truth(&c.Blocked)},
			field{"on_unavailable", d.policy(&c.OnUnavailable)},
		)
		if len(d.problems) > before {
			return
		}
		if c.Unlimited && len(c.Limits) > 0 {
			d.wrong(n.line, n.column, below(path, "unlimited"), "is true beside limits: leave one of them out")
		}
		if !c.Unlimited && !c.Blocked && len(c.Limits) == 0 && c.OnUnavailable == "" {
			d.wrong(n.line, n.column, path, "says nothing: write limits, or leave the level out")
		}
		d.m.Configs[at] = c
	}
}

func (d *decoder) policy(to *dynalimit.UnavailablePolicy) func(*node, string) {
	return func(n *node, path string) {
		known := []dynalimit.UnavailablePolicy{dynalimit.Block, dynalimit.Allow, dynalimit.Local}
		if n.kind != scalar || !slices.Contains(known, dynalimit.UnavailablePolicy(n.text)) {
			d.wrong(n.line, n.column, path, "is %q: write block, allow or local", n.text)
			return
		}
		*to = dynalimit.UnavailablePolicy(n.text)
	}
}

func (d *decoder) limits(to *[]dynalimit.Limit) func(*node, string) {
	return func(n *node, path string) {
		d.named(n, path, "limits by their names, such as {rpm: 100, tpm: {capacity: 10k, burst: 20k}}", schema.CheckLimitName, func(e entry, path string) {
			l := dynalimit.Limit{Name: e.key, RefillPeriod: time.Minute}
			if e.value.kind == scalar {
				d.amount(&l.Capacity)(e.value, path)
			} else {
				d.limit(&l, e.value, path)
			}
			if l.Burst == 0 {
				l.Burst = l.Capacity
			}
			if l.RefillAmount == 0 {
				l.RefillAmount = l.Capacity
			}
			*to = append(*to, l)
		})
		if len(*to) > schema.MaxLimits {
			d.wrong(n.line, n.column, path, "are %d: at most %d limits make a level", len(*to), schema.MaxLimits)
		}
		slices.SortFunc(*to, func(a, b dynalimit.Limit) int { return strings.Compare(a.Name, b.Name) })
	}
}

// limit reads the long form of a limit.
func (d *decoder) limit(l *dynalimit.Limit, n *node, path string) {
	before := len(d.problems)
	once := map[string]bool{}
	only := func(what string, read func(*node, string)) func(*node, string) {
		return func(n *node, path string) {
			if once[what] {
				d.wrong(n.line, n.column, path, "is the %s, which stands here under another name too: leave one of them out", what)
			}
			once[what] = true
			read(n, path)
		}
	}
	d.fields(n, path, "a number, or capacity with what differs from its defaults, such as {capacity: 100, burst: 200, period: 1m}",
		field{"capacity", d.amount(&l.Capacity)},
		field{"burst", d.amount(&l.Burst)},
		field{"refill", only("refill", d.amount(&l.RefillAmount))},
		field{"period", only("period", d.period(&l.RefillPeriod, parsePeriod))},
		field{"refill_amount", only("refill", d.amount(&l.RefillAmount))},
		field{"refill_period", only("period", d.period(&l.RefillPeriod, parseSeconds))},
	)
	if l.Capacity == 0 && len(d.problems) == before {
		d.wrong(n.line, n.column, path, "has no capacity: write what a period allows, such as 'capacity: 100'")
	}
}

func (d *decoder) amount(to *int64) func(*node, string) {
	return func(n *node, path string) {
		reason := fmt.Sprintf("is no number: %s", amountHelp)
		if n.kind == scalar {
			*to, reason = parseAmount(n.text)
		}
		if reason != "" {
			d.wrong(n.line, n.column, path, "%s", reason)
		}
	}
}

func (d *decoder) period(to *time.Duration, parse func(string) (time.Duration, string)) func(*node, string) {
	return func(n *node, path string) {
		reason := fmt.Sprintf("is no time: %s", periodHelp)
		if n.kind == scalar {
			*to, reason = parse(n.text)
		}
		if reason != "" {
			d.wrong(n.line, n.column, path, "%s", reason)
		}
	}
}
