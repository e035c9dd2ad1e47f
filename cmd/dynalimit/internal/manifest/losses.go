package manifest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/admin"
)

// RefuseLosses refuses the changes of a plan that take limits out of force and do not say so: of
// money, and those that a list hides. The table is compared with the table after the whole plan. It
// warns of the others.
func RefuseLosses(ctx context.Context, t Table, p *Plan) error {
	changes, of, plans := p.limitChanges()
	if len(changes)+len(plans) == 0 {
		return nil
	}
	losses, err := t.Limits.Losses(ctx, changes, plans)
	if err != nil {
		return err
	}
	lost := map[admin.Scope][]string{}
	for _, loss := range losses {
		text := fmt.Sprintf("%s would no longer apply", loss)
		switch c := of[loss.Scope]; {
		case c != nil && c.config.Only:
		case c == nil || c.Action == Delete || !loss.Money && (len(c.config.Limits) == 0 || c.config.Extends):
			if !slices.Contains(p.Warnings, text) {
				p.Warnings = append(p.Warnings, text)
			}
		default:
			lost[loss.Scope] = append(lost[loss.Scope], loss.String())
		}
	}
	for at, names := range lost {
		c := of[at]
		c.Action, c.Note = Refuse, strings.Join(names, ", ")+" would no longer apply: write extends: true at the level to keep them, or only: true if they are to go"
	}
	return nil
}

// limitChanges returns the changes of a plan by which other limits apply: of levels, and of entities'
// plans.
func (p *Plan) limitChanges() (changes []admin.ScopedConfig, of map[admin.Scope]*Change, plans map[string]string) {
	of, plans = map[admin.Scope]*Change{}, map[string]string{}
	for i := range p.Changes {
		switch c := &p.Changes[i]; {
		case c.Action == Refuse || c.Action == Adopt:
		case c.Scope != nil:
			changes, of[*c.Scope] = append(changes, admin.ScopedConfig{Scope: *c.Scope, Config: c.config, Delete: c.Action == Delete}), c
		case c.Action == Update && slices.ContainsFunc(c.Fields, func(f Field) bool { return f.Name == "plan" }):
			plans[c.Entity] = c.record.Plan
		}
	}
	return changes, of, plans
}
