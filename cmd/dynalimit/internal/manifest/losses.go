package manifest

import (
	"context"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/admin"
)

// RefuseLosses turns those changes of p into refusals that take money limits, or limits that a list hides, out
// of force without a confirmation. If only is true, deletions are confirmed; the file confirms single changes.
// It adds warnings about other losses to p; its error means that the table cannot be read.
func RefuseLosses(ctx context.Context, t Table, p *Plan, only bool) error {
	c := p.limitChanges()
	if len(c.sources)+len(c.records) == 0 {
		return nil
	}
	losses, err := t.Limits.Losses(ctx, c.sources, c.records)
	if err != nil {
		return err
	}
	refused := map[*Change][]string{}
	for _, loss := range losses {
		at, said := c.changeOf(loss)
		switch {
		case said || only && at != nil && at.Action == Delete:
		case at != nil && (loss.Money || at.Scope != nil && at.Action != Delete && len(at.config.Limits) > 0 && !at.config.Extends):
			if text := loss.String(); !slices.Contains(refused[at], text) {
				refused[at] = append(refused[at], text)
			}
		default:
			if text := loss.String() + " would no longer apply"; !slices.Contains(p.Warnings, text) {
				p.Warnings = append(p.Warnings, text)
			}
		}
	}
	for at, names := range refused {
		at.Note = strings.Join(names, ", ") + " would no longer apply: " + at.keepAdvice()
		at.Action = Refuse
	}
	return nil
}

// keepAdvice returns the advice for a refused change that takes limits out of force: how to keep them, or how
// to confirm their loss.
func (c *Change) keepAdvice() string {
	switch {
	case c.Scope == nil:
		return "keep the plan and the parent, or write only: true at the entity if it is to go"
	case c.Action == Delete:
		return "keep the source in the file, or give --only if it is to go"
	case len(c.config.Limits) > 0:
		return "write extends: true at the source to keep them, or only: true if they are to go"
	}
	return "keep them, or write only: true at the source if they are to go"
}

// limitChanges is the changes of a plan that affect limits: of sources and of records.
type limitChanges struct {
	sources []admin.ScopedConfig
	records []admin.Entity
	// byScope and byEntity map them to the plan's changes.
	byScope  map[admin.Scope]*Change
	byEntity map[string]*Change
}

// changeOf returns the planned change that causes a loss: of the source itself, else of the entity's record, or
// nil if neither is changed. said is true if the file confirms the loss.
func (c *limitChanges) changeOf(loss admin.Loss) (at *Change, said bool) {
	source, record := c.byScope[loss.Scope], c.byEntity[loss.Scope.Entity]
	said = source != nil && loss.Parent == "" && source.config.Only || record != nil && record.record.Only
	if source != nil && loss.Parent == "" {
		return source, said
	}
	return record, said
}

// limitChanges returns the planned changes of configurations and of existing records, which may take limits out
// of force, with pointers into p.Changes. It leaves out refused and adopted ones.
func (p *Plan) limitChanges() limitChanges {
	changes := limitChanges{byScope: map[admin.Scope]*Change{}, byEntity: map[string]*Change{}}
	for i := range p.Changes {
		switch c := &p.Changes[i]; {
		case c.Action == Refuse || c.Action == Adopt:
		case c.Scope != nil:
			changes.sources, changes.byScope[*c.Scope] = append(changes.sources, admin.ScopedConfig{Scope: *c.Scope, Config: c.config, Delete: c.Action == Delete}), c
		case c.Action == Update:
			changes.records, changes.byEntity[c.Entity] = append(changes.records, c.record), c
		}
	}
	return changes
}
