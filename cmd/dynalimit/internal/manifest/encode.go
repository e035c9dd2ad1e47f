package manifest

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
)

// Write writes a manifest as a person would, in a stable order, under comments. A level
// with a note is a comment that says why it cannot be written.
func Write(w io.Writer, m *Manifest, comments []string, notes map[dynalimit.Scope]string) error {
	e := &encoder{Writer: bufio.NewWriter(w), m: m, notes: notes}
	for _, line := range comments {
		e.line(0, "# %s", oneLine(line))
	}
	e.line(0, "version: 1")
	e.line(0, "name: %s", key(m.Name))
	if m.Namespace != "" {
		e.line(0, "namespace: %s", key(m.Namespace))
	}
	e.all()
	return e.Flush()
}

type encoder struct {
	*bufio.Writer
	m     *Manifest
	notes map[dynalimit.Scope]string
}

// line writes a line; what a bufio.Writer cannot write Flush tells.
func (e *encoder) line(depth int, format string, args ...any) {
	fmt.Fprintf(e, "%s"+format+"\n", append([]any{strings.Repeat("  ", depth)}, args...)...)
}

func (e *encoder) all() {
	resources, plans, entities := e.grouped()
	if len(resources[""]) > 0 { // the system
		e.level(0, "system", dynalimit.Scope{})
	}
	delete(resources, "")
	if len(resources) > 0 {
		e.header("resources:", e.anyOf(resources))
		for _, name := range slices.Sorted(maps.Keys(resources)) {
			e.level(1, name, dynalimit.Scope{Resource: name})
		}
	}
	if len(plans) > 0 {
		e.header("plans:", e.anyOf(plans))
		for _, name := range slices.Sorted(maps.Keys(plans)) {
			if e.says(plans[name]) {
				e.line(1, "%s:", key(name))
			} else {
				e.line(1, "# %s has nothing that can be written", oneLine(name))
			}
			e.owned(plans[name])
		}
	}
	if len(entities) > 0 {
		e.header("entities:", len(e.m.Entities) > 0 || e.anyOf(entities))
		for _, id := range slices.Sorted(maps.Keys(entities)) {
			e.entity(id, entities[id])
		}
	}
}

// header begins a part of the file, as a comment if there are comments alone in it.
func (e *encoder) header(text string, said bool) {
	if !said {
		text = "# " + text
	}
	e.line(0, "%s", text)
}

func (e *encoder) anyOf(levels map[string][]dynalimit.Scope) bool {
	for _, of := range levels {
		if e.says(of) {
			return true
		}
	}
	return false
}

// grouped is what the file has: levels by what owns them.
func (e *encoder) grouped() (resources, plans, entities map[string][]dynalimit.Scope) {
	resources, plans, entities = map[string][]dynalimit.Scope{}, map[string][]dynalimit.Scope{}, map[string][]dynalimit.Scope{}
	add := func(at dynalimit.Scope) {
		switch {
		case at.Entity != "":
			entities[at.Entity] = append(entities[at.Entity], at)
		case at.Plan != "":
			plans[at.Plan] = append(plans[at.Plan], at)
		default:
			resources[at.Resource] = append(resources[at.Resource], at)
		}
	}
	for at := range e.m.Configs {
		add(at)
	}
	for at := range e.notes {
		if _, known := e.m.Configs[at]; !known {
			add(at)
		}
	}
	for id := range e.m.Entities {
		entities[id] = append(entities[id], nil...)
	}
	return resources, plans, entities
}

// says reports whether one of the levels can be written.
func (e *encoder) says(levels []dynalimit.Scope) bool {
	return slices.ContainsFunc(levels, func(at dynalimit.Scope) bool { _, ok := e.m.Configs[at]; return ok })
}

// owned writes the levels of a plan or an entity, the default first.
func (e *encoder) owned(levels []dynalimit.Scope) {
	slices.SortFunc(levels, func(a, b dynalimit.Scope) int { return cmp.Compare(a.Resource, b.Resource) })
	if len(levels) > 0 && levels[0].Resource == "" {
		e.level(2, "default", levels[0])
		levels = levels[1:]
	}
	if len(levels) == 0 {
		return
	}
	if e.says(levels) { // else there are comments alone
		e.line(2, "resources:")
	}
	for _, at := range levels {
		e.level(3, at.Resource, at)
	}
}

func (e *encoder) entity(id string, levels []dynalimit.Scope) {
	record, in := e.m.Entities[id]
	said := e.says(levels)
	r, bare := record.Record, saysNothing(record.Record)
	switch {
	case !in && !said:
		e.line(1, "# %s has nothing that can be written", oneLine(id))
	case bare && !said:
		e.line(1, "%s: {}", key(id))
	default:
		e.line(1, "%s:", key(id))
		if bare && in && !record.LimitsOnly {
			e.line(2, `name: ""`) // a record that says nothing, besides levels
		}
		e.record(r)
	}
	e.owned(levels)
}

// saysNothing reports whether a record has nothing but its id.
func saysNothing(r dynalimit.Entity) bool {
	return r.Name == "" && r.ParentID == "" && !r.Cascade && r.Plan == "" && len(r.Metadata) == 0
}

func (e *encoder) record(r dynalimit.Entity) {
	if r.Name != "" {
		e.line(2, "name: %s", quoted(r.Name))
	}
	if r.ParentID != "" {
		e.line(2, "parent: %s", key(r.ParentID))
	}
	if r.Cascade {
		e.line(2, "cascade: true")
	}
	if r.Plan != "" {
		e.line(2, "plan: %s", key(r.Plan))
	}
	if len(r.Metadata) > 0 {
		e.line(2, "metadata: %s", flow(withKeysOnce(r.Metadata)))
	}
}

// level writes one level, or the comment of one that cannot be written.
func (e *encoder) level(depth int, name string, at dynalimit.Scope) {
	c, ok := e.m.Configs[at]
	if note := e.notes[at]; note != "" {
		e.line(depth, "# %s: %s", oneLine(name), oneLine(note))
	}
	if !ok {
		return
	}
	e.line(depth, "%s:", key(name))
	if len(c.Limits) > 0 {
		e.line(depth+1, "limits:")
		for _, l := range c.Limits {
			e.line(depth+2, "%s: %s", key(l.Name), limitText(l))
		}
	}
	if c.Unlimited {
		e.line(depth+1, "unlimited: true")
	}
	if c.Blocked {
		e.line(depth+1, "blocked: true")
	}
	if c.OnUnavailable != "" {
		e.line(depth+1, "on_unavailable: %s", c.OnUnavailable)
	}
}

// limitText is a limit in its shortest form.
func limitText(l dynalimit.Limit) string {
	parts := []string{"capacity: " + amountOf(l.Capacity)}
	if l.Burst != l.Capacity {
		parts = append(parts, "burst: "+amountOf(l.Burst))
	}
	if l.RefillAmount != l.Capacity {
		parts = append(parts, "refill: "+amountOf(l.RefillAmount))
	}
	if l.RefillPeriod != time.Minute {
		parts = append(parts, "period: "+notation.PeriodText(l.RefillPeriod))
	}
	if len(parts) == 1 {
		return amountOf(l.Capacity)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

var plainKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./@-]*$`)

// notPlain are words that some readers of YAML take for something else than a name.
var notPlain = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

// key is a name, in quotes where it could be taken for something else.
func key(name string) string {
	if plainKey.MatchString(name) && !slices.Contains(notPlain, strings.ToLower(name)) {
		return name
	}
	return quoted(name)
}

// quoted is a text in double quotes.
func quoted(text string) string {
	var b bytes.Buffer
	writeJSON(&b, text)
	var out strings.Builder
	for _, c := range b.String() {
		if c >= 0x7f && c < 0xa0 || c == 0xfeff { // JSON takes them as they are, YAML does not
			fmt.Fprintf(&out, `\u%04x`, c)
			continue
		}
		out.WriteRune(c)
	}
	return out.String()
}

// flow is JSON as YAML has it.
func flow(text json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var b strings.Builder
	var open []bool // of each value that is open: whether it is an object
	count := []int{0}
	for {
		token, err := d.Token()
		if err != nil {
			return b.String()
		}
		last := len(count) - 1
		if token == json.Delim('}') || token == json.Delim(']') {
			b.WriteString(fmt.Sprint(token))
			open, count = open[:len(open)-1], count[:last]
			continue
		}
		b.WriteString(separator(len(open) > 0 && open[len(open)-1], count[last]))
		count[last]++
		switch v := token.(type) {
		case json.Delim:
			b.WriteString(v.String())
			open, count = append(open, v == '{'), append(count, 0)
		case string:
			b.WriteString(quoted(v))
		case nil:
			b.WriteString("null")
		default:
			fmt.Fprint(&b, v)
		}
	}
}

// separator stands before the next part of a value of which n parts are written.
func separator(inObject bool, n int) string {
	switch {
	case inObject && n%2 == 1:
		return ": "
	case n > 0:
		return ", "
	}
	return ""
}

// oneLine is a text as a comment can have it.
func oneLine(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f && c < 0xa0 || c == 0x2028 || c == 0x2029 || c == 0xfeff {
			return ' '
		}
		return c
	}, text)
}
