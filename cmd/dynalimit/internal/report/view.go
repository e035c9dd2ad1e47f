package report

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// colours is the number of series with their own colours.
const colours = MaxEntities

// view is a report in the form of the page.
type view struct {
	Title    string
	Facts    []fact
	Notes    []string
	Sections []section
}

type fact struct{ Name, Value string }

// section is a heading with a panel for each limit. The page shows one panel at a time.
type section struct {
	ID, Title, Lead string
	Panels          []panel
}

// panel is a chart with its numbers as text.
type panel struct {
	ID, Limit, What     string
	Per                 string // the length of a window
	Total, Peak, PeakAt string
	Names               string // title of the table's first column
	Rows                []row
	Gaps, Open          bool
}

// row is a line of the table of shares.
type row struct {
	Name, Parent, Amount, Share, Width string
	Colour                             string // class of its colour
	Rest                               bool
}

// chart is a panel's data for the script.
type chart struct {
	Limit  string `json:"limit"`
	Series []line `json:"series"`
	Marks  []Mark `json:"marks"`
}

// line is one series of a chart.
type line struct {
	Name   string  `json:"name"`
	Rest   bool    `json:"rest,omitempty"`
	Values []int64 `json:"values"`
	parent string
}

// data is the input of the script.
type data struct {
	Zone   string           `json:"zone"`
	Window string           `json:"window"`
	Starts []int64          `json:"starts"` // in unix seconds
	To     int64            `json:"to"`
	Labels []string         `json:"labels"`
	Charts map[string]chart `json:"charts"`
}

// buildPage returns the sections of the page and the data of its script: an overview of several
// resources, then each resource.
func (r *Report) buildPage() (view, data) {
	v := view{Title: "Usage of the table " + r.Table, Facts: r.listFacts(), Notes: r.Notes}
	if r.Entity != "" {
		v.Title = "Usage of " + r.Entity
	}
	d := data{Zone: cmp.Or(r.Zone, "UTC"), Window: r.Window, To: r.To.Unix(), Starts: []int64{}, Labels: []string{}, Charts: map[string]chart{}}
	for i, at := range r.Starts {
		d.Starts = append(d.Starts, at.Unix())
		d.Labels = append(d.Labels, r.windowLabel(i))
	}
	if len(r.Starts) == 0 {
		return v, d
	}
	add := func(id string, s section, charts []chart, names string) {
		s.ID = id
		for i, c := range charts {
			p := r.newPanel(c, names)
			p.ID = id + "-" + strconv.Itoa(i)
			p.What = s.Title
			s.Panels = append(s.Panels, p)
			d.Charts[p.ID] = c
		}
		v.Sections = append(v.Sections, s)
	}
	if once := r.ungroupedResources(); len(once) > 1 {
		lead := "What was consumed of each resource, by the name of the limit that counted it."
		if len(once) < len(r.Resources) {
			lead += " Groups are not in it: what they count is counted of their resources."
		}
		add("overview", section{Title: "All resources", Lead: lead}, r.overviewCharts(), "Resource")
	}
	for i, resource := range r.Resources {
		add("r"+strconv.Itoa(i), section{Title: resource.Name}, resource.limitCharts(), "Entity")
	}
	return v, d
}

// listFacts returns the rows above the charts: the table, the period and the time zone.
func (r *Report) listFacts() []fact {
	facts := []fact{{"Table", r.Table}}
	if r.Namespace != "" {
		facts = append(facts, fact{"Namespace", r.Namespace})
	}
	if r.Entity != "" {
		facts = append(facts, fact{"Entity", r.Entity})
	}
	const layout = "2 Jan 2006, 15:04"
	zone := cmp.Or(r.Zone, "UTC")
	return append(facts,
		fact{"From", r.From.Format(layout)}, fact{"To", r.To.Format(layout)},
		fact{"Time zone", zone}, fact{"Each value is", "one " + r.Window}, fact{"Made", r.Made.Format(layout)})
}

// windowLabel returns the label of window i for people: its month, day or hour.
func (r *Report) windowLabel(i int) string {
	at := r.Starts[i]
	switch r.Window {
	case "month":
		return at.Format("January 2006")
	case "day":
		return at.Format("Mon 2 Jan 2006")
	}
	end := at.Add(time.Hour)
	return at.Format("Mon 2 Jan 2006, 15:04") + "–" + end.Format("15:04")
}

// limitCharts returns the charts of a resource, one for each limit.
func (r Resource) limitCharts() []chart {
	charts := make([]chart, 0, len(r.Limits))
	for _, l := range r.Limits {
		charts = append(charts, l.limitChart())
	}
	return charts
}

// limitChart returns the chart of a limit: each coloured entity, and the others combined.
func (l Limit) limitChart() chart {
	c := chart{Limit: l.Name, Series: []line{}, Marks: nonNilMarks(l.Marks)}
	named := min(colours, len(l.Entities))
	rest := line{Name: cmp.Or(l.Others, "others"), Rest: true}
	l.Entities = l.Entities[:named]
	for _, s := range l.Entities {
		c.Series = append(c.Series, line{Name: s.Entity, Values: s.Values, parent: s.Parent})
	}
	if rest.Values = l.otherConsumption(); slices.ContainsFunc(rest.Values, func(v int64) bool { return v != 0 }) {
		c.Series = append(c.Series, rest)
	}
	return c
}

// ungroupedResources returns the resources without groups, so that no usage counts twice.
func (r *Report) ungroupedResources() []Resource {
	return slices.DeleteFunc(slices.Clone(r.Resources), func(resource Resource) bool { return resource.Group })
}

// overviewCharts returns the charts of all resources combined, one for each name of a limit.
func (r *Report) overviewCharts() []chart {
	var names []string
	for _, resource := range r.ungroupedResources() {
		for _, l := range resource.Limits {
			if !slices.Contains(names, l.Name) {
				names = append(names, l.Name)
			}
		}
	}
	charts := make([]chart, 0, len(names))
	for _, name := range names {
		charts = append(charts, r.combinedChart(name))
	}
	return charts
}

// combinedChart returns the chart of one limit's name over all resources, a line for each. The
// smallest ones are merged into one line.
func (r *Report) combinedChart(name string) chart {
	c := chart{Limit: name, Marks: []Mark{}}
	for _, resource := range r.ungroupedResources() {
		for _, l := range resource.Limits {
			if l.Name != name {
				continue
			}
			c.Series = append(c.Series, line{Name: resource.Name, Values: l.Total})
			c.Marks = append(c.Marks, l.Marks...)
		}
	}
	slices.SortStableFunc(c.Series, func(a, b line) int { return cmp.Compare(sumOf(b.Values), sumOf(a.Values)) })
	if len(c.Series) > colours {
		c.Series = append(c.Series[:colours:colours], mergeLines(c.Series[colours:]))
	}
	c.Marks = joinMarks(c.Marks)
	return c
}

// mergeLines returns one line with the sums of several. some must not be empty.
func mergeLines(some []line) line {
	rest := line{Name: countText(int64(len(some))) + " others", Rest: true, Values: make([]int64, len(some[0].Values))}
	for _, s := range some {
		for i, v := range s.Values {
			rest.Values[i] += v
		}
	}
	return rest
}

// joinMarks merges the marks of several limits into one for each window, ascending. It sorts all in
// place.
func joinMarks(all []Mark) []Mark {
	slices.SortStableFunc(all, func(a, b Mark) int { return cmp.Compare(a.Window, b.Window) })
	one := all[:0]
	for _, m := range all {
		if last := len(one) - 1; last >= 0 && one[last].Window == m.Window {
			one[last] = one[last].combineWith(m)
		} else {
			one = append(one, m)
		}
	}
	return one
}

// combineWith returns one mark for a window from the marks of two limits.
func (m Mark) combineWith(other Mark) Mark {
	return Mark{
		Window: other.Window, Open: m.Open || other.Open, Pending: m.Pending + other.Pending,
		Unrecorded: m.Unrecorded + other.Unrecorded, Unseen: m.Unseen + other.Unseen,
	}
}

// nonNilMarks returns some, or an empty list for nil, so that JSON has no null.
func nonNilMarks(some []Mark) []Mark {
	if some == nil {
		return []Mark{}
	}
	return some
}

// newPanel returns the panel of a chart: its totals, its peak, and a row for each line of the
// chart. names is the title of the rows.
func (r *Report) newPanel(c chart, names string) panel {
	p := panel{Limit: c.Limit, Per: r.Window, Names: names}
	total := make([]int64, len(r.Starts))
	for _, s := range c.Series {
		for i, v := range s.Values {
			total[i] += v
		}
	}
	whole, peak := sumOf(total), 0
	for i, v := range total {
		if v > total[peak] {
			peak = i
		}
	}
	p.Total, p.Peak, p.PeakAt = amountText(whole), amountText(total[peak]), r.windowLabel(peak)
	for _, m := range c.Marks {
		p.Gaps = p.Gaps || m.hasGap()
		p.Open = p.Open || m.Open
	}
	for i, s := range c.Series {
		used := sumOf(s.Values)
		line := row{
			Name: s.Name, Parent: s.parent, Amount: amountText(used), Share: shareText(used, whole), Width: barWidth(used, whole),
			Colour: "s" + strconv.Itoa(i), Rest: s.Rest,
		}
		if s.Rest {
			line.Colour = "rest"
		}
		p.Rows = append(p.Rows, line)
	}
	return p
}
