package config

import (
	"fmt"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/sources"
)

// words are the texts about a source for users.
type words struct {
	list, hides string
	set         fault.Fix // empty for a source of the program's own
}

var texts = map[sources.Source]words{
	sources.Entity: {
		"the entity's own list for this resource (source entity)",
		"its default list and those of its plan, the resource and the system", fault.SetEntityLimits,
	},
	sources.EntityDefault: {
		"the entity's default list (source entity_default)",
		"those of its plan, the resource and the system", fault.SetEntityLimits,
	},
	sources.Plan: {
		"the plan's list for this resource (source plan)",
		"the plan's default list and those of the resource and the system", fault.SetPlanLimits,
	},
	sources.PlanDefault: {
		"the plan's default list (source plan_default)",
		"those of the resource and the system", fault.SetPlanLimits,
	},
	sources.Resource: {"the resource's list (source resource)", "the system's", fault.SetResourceLimits},
	sources.System:   {"the system's list (source system)", "", fault.SetSystemLimits},
	sources.Options:  {"Options.Limits (source options)", "", ""},
	sources.Override: {"the list of WithLimits (source override)", "", ""},
}

// UnknownReason returns the reason, as text, and the remedy of an error about a limit that no source has, given
// the source that won. Both are empty for a source without a text.
func UnknownReason(won sources.Source) (string, fault.Fix) {
	w := texts[won]
	switch {
	case w.list == "":
		return "", ""
	case w.hides == "":
		return fmt.Sprintf("they are those of %s: add the limit there", w.list), w.set
	}
	return fmt.Sprintf("%s hides %s: add the limit to it", w.list, w.hides), w.set
}

// HiddenReason returns the reason as text, and the remedy, of an error about a limit that the source hidden
// has. It is not in force because won, a more specific source, has a list.
func HiddenReason(won, hidden sources.Source) (string, fault.Fix) {
	w := texts[won]
	return fmt.Sprintf("%s won and hides %s, which has it, because lists are not merged: leave the name out, or add the limit (with a large burst if it is not to limit there) to the list that won",
		w.list, texts[hidden].list), w.set
}
