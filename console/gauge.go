package console

import (
	"fmt"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// gauge is the use of one limit of a bucket, as pages show it.
type gauge struct {
	// Key names the limit's cells in polls.
	Key string
	// Name is the limit, Used and Of are its use and its capacity, and Per is its period.
	Name, Used, Of, Per string
	// Percent is the used part, rounded down, and Class the colour of its bar.
	Percent int
	Class   string
	// Again says when the limit is full again.
	Again string
	// From says where the limit is set, with a tag of a raise.
	From, Raised string
	// FromLink is the page of From; empty without one.
	FromLink string

	used, capacity int64
	money, quota   bool
	window         string
}

// Width returns the length of the bar in percent, 0 to 100.
func (g gauge) Width() int { return max(0, min(g.Percent, 100)) }

// Label returns the limit's name and its used percent as text, for visitors without colours.
func (g gauge) Label() string { return fmt.Sprintf("%s: %d %% used", g.Name, g.Percent) }

// bucketGauges returns a gauge for each limit of a bucket, as of now, with times in zone.
func (v *visit) bucketGauges(b admin.Bucket, zone *time.Location) []gauge {
	all := make([]gauge, 0, len(b.Limits))
	for _, s := range b.Limits {
		all = append(all, newGauge(s, v.isMoney(s.Limit.Name) && s.Limit.IsQuota(), v.now(), zone))
	}
	return all
}

// newGauge returns the gauge of a limit's state at now, with dollars for money and times in zone. It counts use
// from the larger of burst and capacity, at least 0. The percentage is below 100 until nothing remains.
func newGauge(s dynalimit.LimitStatus, money bool, now time.Time, zone *time.Location) gauge {
	capacity := max(s.Limit.Burst, s.Limit.Capacity)
	used := max(0, capacity-s.Remaining)
	g := gauge{
		Key: s.EntityID + " " + s.Resource + " " + s.Limit.Name, Name: s.Limit.Name, Used: formatAmount(money, used), Of: formatAmount(money, capacity), Per: periodText(s.Limit),
		used: used, capacity: capacity, money: money, quota: s.Limit.IsQuota(), window: s.Limit.Window,
	}
	if capacity > 0 {
		g.Percent = int(float64(used) / float64(capacity) * 100)
		if used < capacity {
			g.Percent = min(g.Percent, 99)
		}
	}
	switch {
	case g.Percent >= 100:
		g.Class = "full"
	case g.Percent >= 80:
		g.Class = "near"
	default:
		g.Class = "f"
	}
	switch at := now.Add(s.Reset).In(zone); {
	case used == 0:
		g.Again = "is full"
	case s.Reset == dynalimit.Never:
		g.Again = "never"
	case !g.quota:
		g.Again = "in " + formatSpan(s.Reset)
	case s.Limit.Window == "month" || s.Limit.Window == "week":
		g.Again = at.Format("on Jan 2")
	default:
		g.Again = at.Format("at 15:04")
	}
	return g
}

// findGauge returns a pointer to the first gauge of the slice that fits accepts, and nil without one.
func findGauge(all []gauge, fits func(gauge) bool) *gauge {
	if i := slices.IndexFunc(all, fits); i >= 0 {
		return &all[i]
	}
	return nil
}

// row is an entity of a list.
type row struct {
	ID, Name, Plan string
	// Parent is the parent's id; empty without one.
	Parent string
	// Link is the entity's page.
	Link string
	// Day and Month are its quotas, of money if it has some, and Rate is its largest other limit; each nil if it
	// has none.
	Day, Month, Rate *gauge
	// State and Class are the state as a word with its colour.
	State, Class string
	// Depth indents the row, Toggle opens or closes its children, and Open says that they are shown.
	Depth  int
	Toggle string
	Open   bool
	// More is the page after this row's list; empty without one.
	More string
	// Share is the part of all, in percent, and AtLeast says that Spent may be too low.
	Share   int
	Spent   string
	AtLeast bool
}

// forest is the entities of lists with their chains, buckets and blocks, by id.
type forest struct {
	records map[string]admin.Entity
	buckets map[string]admin.Bucket
	blocked map[string]bool
	catalog catalog
	// under is the highest visible entity; empty for all.
	under string
}

// mostLevels bounds the levels of a chain.
const mostLevels = 8

// chainIDs returns the ids of an entity and of the parents that its calls charge, the entity first, at most
// eight. It stops at a detached entity, a cycle or an entity without a parent.
func (f forest) chainIDs(id string) []string {
	chain := []string{id}
	for len(chain) < mostLevels {
		e := f.records[chain[len(chain)-1]]
		if e.ParentID == "" || e.Detached || slices.Contains(chain, e.ParentID) {
			break
		}
		chain = append(chain, e.ParentID)
	}
	return chain
}

// countVisible returns how many levels of a chain, from its first on, a visitor may see by name. They end at
// the top of the subtree; without a subtree it counts all. It is 0 for a chain outside the subtree.
func (f forest) countVisible(chain []string) int {
	if f.under == "" {
		return len(chain)
	}
	return slices.Index(chain, f.under) + 1
}

// state returns the worst state of an entity's chain as a word (Blocked, spent, Near at 80 %, OK), and its CSS
// class. It does not name levels above the visitor's subtree.
func (f forest) state(id string, gauges func(id string) []gauge) (text, class string) {
	chain := f.chainIDs(id)
	names := f.countVisible(chain)
	spent, near := "", false
	for i, level := range chain {
		by := " by " + level
		switch {
		case i == 0:
			by = ""
		case i >= names:
			by = " by a level above"
		}
		if f.blocked[level] {
			return "Blocked" + by, "bad"
		}
		if of := f.catalog.sharedBlock(f.records[level].Plan); of != "" && i == 0 {
			return "Blocked by " + of, "bad"
		}
		for _, g := range gauges(level) {
			switch {
			case g.quota && g.Percent >= 100 && spent == "":
				switch {
				case i == 0:
					spent = "Spent"
				case i >= names:
					spent = "A level above is spent"
				default:
					spent = level + " is spent"
				}
			case i == 0 && g.Percent >= 80:
				near = true
			}
		}
	}
	switch {
	case spent != "":
		return spent, "bad"
	case near:
		return "Near", "warn"
	}
	return "OK", "ok"
}
