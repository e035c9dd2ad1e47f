package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/sources"
)

// Loss is a limit that is in force and would not be after changes of configuration. As JSON it has
// the names of its fields in lower case.
type Loss struct {
	// Scope is the source that changes or, if an entity gets another plan or parent, the entity's
	// default.
	Scope Scope `json:"scope"`
	// Resource is the resource on which the limit is in force; empty for every resource that has no
	// limits of its own, and maybe others.
	Resource string `json:"resource,omitempty"`
	// Name is the limit's.
	Name string `json:"name"`
	// Source is the most specific source that would have the limit and not be in force; empty if no
	// source would have it.
	Source sources.Source `json:"source,omitempty"`
	// Money means that the limit is one of money (dynalimit.Limit.Unit).
	Money bool `json:"money,omitempty"`
	// Group is the group that has the limit, if the resource of Scope leaves it.
	Group string `json:"group,omitempty"`
	// Parent is the entity above that has the limit, if calls of the entity of Scope are to charge
	// it no more.
	Parent string `json:"parent,omitempty"`
}

// String returns the limit with its source and scope: "usd of source plan_default for entity acme on gpt-4".
func (l Loss) String() string {
	text := l.Name
	switch {
	case l.Group != "":
		text += " of group " + l.Group
	case l.Parent != "":
		text += " of parent " + l.Parent
	case l.Source != "":
		text += " of source " + string(l.Source)
	}
	return text + " for " + l.scopeOnResource().String()
}

// scopeOnResource returns the scope on the resource where the limit is in force.
func (l Loss) scopeOnResource() Scope {
	at := l.Scope
	at.Resource = cmp.Or(at.Resource, l.Resource)
	return at
}

// lossCheck configures the check of changes for lost limits.
type lossCheck struct {
	// keepsGroups means that the groups of a resource stay, in spite of the change.
	keepsGroups bool
	// removed are the names that the caller takes off a list: of them only money needs Only.
	removed []string
}

// refuseLosses returns a *ValidationError if changes without Only take limits out of force: money, or limits of
// less specific sources that a replacing list hides. Of the names in check.removed only money matters. It does
// not check changes with Only; the others it checks as every change.
func (d *desk) refuseLosses(ctx context.Context, check lossCheck, changes ...ScopedConfig) error {
	unsaid := slices.DeleteFunc(slices.Clone(changes), func(c ScopedConfig) bool { return c.Config.Only })
	if len(unsaid) == 0 {
		return nil
	}
	for _, c := range unsaid {
		if err := c.Scope.validate("scope."); err != nil {
			return err
		}
	}
	if err := d.checkChange(ctx); err != nil {
		return err
	}
	c, err := d.compareSources(unsaid, check.keepsGroups)
	if err != nil {
		return err
	}
	losses, err := c.findLosses(ctx, nil)
	if err != nil {
		return err
	}
	replaces := map[Scope]bool{}
	for _, c := range unsaid {
		replaces[c.Scope.normalized()] = len(c.Config.Limits) > 0 && !c.Config.Extends
	}
	losses = slices.DeleteFunc(losses, func(l Loss) bool {
		return !l.Money && (!replaces[l.Scope] || slices.Contains(check.removed, l.Name))
	})
	if len(losses) == 0 {
		return nil
	}
	return withFix(invalid("config.only", "is not set, and these limits would no longer apply: %s; set it if they are to go, or keep them", listLosses(losses)), fault.AddLimits)
}

// listLosses returns the losses as one text, separated by commas, each once. It names at most five, and then
// the number of the others.
func listLosses(losses []Loss) string {
	var names []string
	for _, loss := range losses {
		if text := loss.String(); !slices.Contains(names, text) {
			names = append(names, text)
		}
	}
	const most = 5
	if n := len(names); n > most {
		names = append(names[:most], fmt.Sprintf("%d more", n-most))
	}
	return strings.Join(names, ", ")
}
