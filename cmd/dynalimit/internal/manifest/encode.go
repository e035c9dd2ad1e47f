package manifest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// Write writes a manifest as YAML, in a stable order, below comments, each on one line. notes are the reasons
// that some sources are not in it; they become comments too. It returns the first error of writing.
func Write(w io.Writer, m *Manifest, comments []string, notes map[admin.Scope]string) error {
	for _, at := range slices.SortedFunc(maps.Keys(notes), func(a, b admin.Scope) int { return strings.Compare(a.String(), b.String()) }) {
		comments = append(comments, fmt.Sprintf("Not in it: limits of %s: %s", at, notes[at]))
	}
	for _, line := range comments {
		if _, err := fmt.Fprintf(w, "# %s\n", oneLine(line)); err != nil {
			return err
		}
	}
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(fileOf(m)); err != nil {
		return err
	}
	return e.Close()
}

// WriteJSON writes a manifest as indented JSON, which Parse also reads. It has no place for comments.
func WriteJSON(w io.Writer, m *Manifest) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(fileOf(m))
}

// fileOf converts a manifest to the form of its file, always of version 2, without fields at their defaults.
func fileOf(m *Manifest) *file {
	f := &file{Version: 2, Name: &m.Name, Namespace: textPointer(m.Namespace), Resources: sources{}, Plans: plans{}, Entities: entities{}}
	for id, e := range m.Entities {
		f.Entities[id] = entityOf(e.Record)
	}
	for at, c := range m.Configs {
		l := sourceOf(c)
		switch {
		case at.Entity != "":
			f.Entities.entityFor(at.Entity, m).putSource(at.Resource, l)
		case at.Plan != "":
			if f.Plans[at.Plan] == nil {
				f.Plans[at.Plan] = &owned{}
			}
			f.Plans[at.Plan].putSource(at.Resource, l)
		case at.Resource != "":
			f.Resources[at.Resource] = l
		default:
			f.System = l
		}
	}
	return f
}

// entityFor returns the file's entity id, and adds it if it is missing. If m has an empty record for it, it
// sets an explicit empty name, so that the file still defines the record.
func (e entities) entityFor(id string, m *Manifest) *entity {
	if e[id] == nil {
		e[id] = &entity{}
	}
	if record, in := m.Entities[id]; in && !record.LimitsOnly && isEmptyRecord(record.Record) {
		e[id].Name = new(string)
	}
	return e[id]
}

// putSource sets in o the source of an entity or a plan on a resource, or its default if resource is "".
func (o *owned) putSource(resource string, l *source) {
	if resource == "" {
		o.Default = l
		return
	}
	if o.Resources == nil {
		o.Resources = sources{}
	}
	o.Resources[resource] = l
}

// textPointer returns a pointer to a text, or nil for "".
func textPointer(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// entityOf converts a record to its form in a file. It omits fields at their defaults, its id, version and
// manager.
func entityOf(e admin.Entity) *entity {
	out := &entity{Name: textPointer(e.Name), Parent: textPointer(e.ParentID), Plan: textPointer(e.Plan), Metadata: metadata(e.Metadata)}
	if e.Cascade {
		out.Cascade = &e.Cascade
	}
	if e.Detached {
		out.Detached = &e.Detached
	}
	return out
}

// isEmptyRecord reports whether a record has none of the fields that a file can give: name, parent, cascade,
// detached, plan and metadata.
func isEmptyRecord(r admin.Entity) bool {
	return r.Name == "" && r.ParentID == "" && !r.Cascade && !r.Detached && r.Plan == "" && len(r.Metadata) == 0
}

// sourceOf converts a configuration to its form in a file. It omits fields at their defaults, and raises.
func sourceOf(c admin.LimitConfig) *source {
	out := &source{
		Extends: c.Extends, Lifted: c.Lifted, Unlimited: unlimitedOf(c), Blocked: c.Blocked, BlockedExcept: c.BlockedExcept, Admit: c.Admit,
		OnUnavailable: string(c.OnUnavailable), Groups: c.Groups, Limits: limits{},
	}
	for _, l := range c.Limits {
		one := &limit{Capacity: capacityOf(l), Unit: unit(l.Unit), PerModel: l.PerModel, MaxDebt: amount(l.MaxDebt), Reserve: reserveOf(l), Shadow: l.Shadow, AlertAt: percents(l.AlertAt)}
		if l.Burst != l.Capacity {
			one.Burst = amount(l.Burst)
		}
		if l.RefillAmount != l.Capacity {
			one.Refill = amount(l.RefillAmount)
		}
		if l.RefillPeriod != time.Minute {
			one.Period = period(l.RefillPeriod) // 0 for a quota
		}
		one.Window = window(l.Window)
		if l.Zone != "UTC" {
			one.Zone = zone(l.Zone)
		}
		if l.IsConcurrent() {
			one = &limit{Concurrent: amount(l.Capacity), Reserve: reserveOf(l), Shadow: l.Shadow}
			if l.Hold != time.Minute {
				one.Hold = period(l.Hold)
			}
			if l.Longest != dynalimit.Concurrent(l.Name, l.Capacity, l.Hold).Longest {
				one.Longest = period(l.Longest)
			}
		}
		out.Limits[l.Name] = one
	}
	return out
}

// oneLine returns a text with each control character and line end replaced by a space, for a YAML comment.
func oneLine(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f && c < 0xa0 || c == 0x2028 || c == 0x2029 || c == 0xfeff {
			return ' '
		}
		return c
	}, text)
}
