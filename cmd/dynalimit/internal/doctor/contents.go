package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// checkNamespace checks that the namespace, if one is named, is registered and not deleted. Otherwise the
// finding is Wrong, and it sets v.down, so that later checks send no request. It is Unchecked if v.down is set
// or the read fails.
func (v *visit) checkNamespace(ctx context.Context) tables.Finding {
	if v.down != "" {
		return tables.CannotCheck("%s", v.down)
	}
	if v.Namespace == "" {
		return tables.Fine("none is named")
	}
	n, err := admin.New(v.Limits).Namespaces.Get(ctx, v.Namespace)
	if err != nil {
		return tables.CannotCheck("%s", v.explainError(err))
	}
	f := tables.Finding{Status: tables.Wrong, Found: v.Namespace + " is not registered", Means: "every call in it fails; a misspelt name is no new tenant"}
	command := "register " + v.Namespace
	switch n.State {
	case fault.NamespaceActive:
		return tables.Fine("%s is registered", v.Namespace)
	case "":
	default:
		command, f.Found, f.Means = "list", v.Namespace+" was deleted", "every call in it fails, for good; use another name"
	}
	v.down = "the namespace cannot be used"
	f.Fix = "dynalimit namespace " + command + strings.ReplaceAll(v.table.Flags.Ours, " --namespace "+v.Namespace, "")
	return f
}

// mostSources is the maximal number of sources to read, readingTimes the time limit in timeouts.
const mostSources, readingTimes, batch = 5_000, 6, 100

// checkConfiguration reads the first mostSources sources and reports unreadable ones. It sets v.owners,
// v.resources and v.groups, and v.plans if it has read every source. If a read fails or takes too long, it
// stops with a finding that is Unchecked.
func (v *visit) checkConfiguration(ctx context.Context) []tables.Finding {
	if v.down != "" {
		return []tables.Finding{tables.CannotCheck("%s", v.down)}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readingTimes*v.Timeout, errSlow)
	defer cancel()
	var pending []admin.Scope
	var results []tables.Finding
	seen, plans := 0, map[string]bool{}
	v.owners = map[string]bool{}
	v.resources, v.groups = map[string]bool{}, map[string]string{}
	read := func() error {
		broken, err := v.findUnreadable(ctx, pending)
		results, pending = append(results, broken...), pending[:0]
		return err
	}
	for at, err := range admin.New(v.Limits).Limits.Scopes(ctx) {
		if err == nil {
			seen++
			plans[at.Plan], v.resources[at.Resource], v.owners[at.Entity] = true, true, true
			pending = append(pending, at)
		}
		if err == nil && len(pending) == batch {
			err = read()
		}
		if err != nil {
			return append(results, tables.CannotCheck("%s; %d sources were read", v.explainError(err), seen-len(pending)))
		}
		if seen == mostSources {
			break
		}
	}
	if err := read(); err != nil {
		return append(results, tables.CannotCheck("%s", v.explainError(err)))
	}
	if seen < mostSources {
		v.plans = plans
	}
	if len(results) > 0 {
		return results
	}
	if seen == mostSources {
		return []tables.Finding{tables.Fine("the first %d sources can be read, the others were not checked", seen)}
	}
	return []tables.Finding{tables.Fine("%s, all can be read", notation.CountText(seen, "source"))}
}

// findUnreadable returns a Wrong finding for each of sources with a configuration that cannot be decoded. It
// reads all at once, and one by one if that fails. It adds their groups to v.groups, and sets v.alerted to the
// first with alerts; another error ends it.
func (v *visit) findUnreadable(ctx context.Context, sources []admin.Scope) ([]tables.Finding, error) {
	if len(sources) == 0 {
		return nil, nil
	}
	configs, err := admin.New(v.Limits).Limits.GetConfigs(ctx, sources)
	for _, c := range configs {
		for _, group := range c.Config.Groups {
			v.groups[group] = c.Scope.Resource
		}
		if v.alerted == "" && slices.ContainsFunc(c.Config.Limits, func(l dynalimit.Limit) bool { return l.AlertAt != 0 }) {
			v.alerted = c.Scope.String()
		}
	}
	if _, wrong := errors.AsType[*dynalimit.ValidationError](err); !wrong {
		return nil, err
	}
	var results []tables.Finding
	for _, at := range sources {
		_, err := admin.New(v.Limits).Limits.GetConfig(ctx, at)
		if _, wrong := errors.AsType[*dynalimit.ValidationError](err); wrong {
			results = append(results, tables.Finding{
				Check: "configuration of " + at.String(), Status: tables.Wrong, Found: strings.TrimPrefix(err.Error(), "dynalimit: "),
				Means: "its calls fail; without it, less specific sources decide. The command prints what it removes", Fix: v.deleteSourceCommand(at),
			})
		} else if err != nil {
			return results, err
		}
	}
	return results, nil
}

// deleteSourceCommand returns an AWS CLI command that deletes the item of an unreadable source and prints it.
// The commands of dynalimit would have to read the source first. It runs nothing.
func (v *visit) deleteSourceCommand(at admin.Scope) string {
	keys := schema.NewKeys(v.Namespace)
	key := keys.SystemConfig()
	switch {
	case at.Entity != "":
		key = keys.EntityConfig(at.Entity, at.Resource)
	case at.Plan != "":
		key = keys.PlanConfig(at.Plan, at.Resource)
	case at.Resource != "":
		key = keys.ResourceConfig(at.Resource)
	}
	return v.deleteItemCommand(key)
}

// checkSystemLimits reads the system source. A block is Wrong, also one with exceptions. Missing limits and an
// unlimited system are a Hint, limits are OK, and it is Unchecked if v.down is set or the read fails.
func (v *visit) checkSystemLimits(ctx context.Context) tables.Finding {
	if v.down != "" {
		return tables.CannotCheck("%s", v.down)
	}
	config, err := admin.New(v.Limits).Limits.GetConfig(ctx, admin.Scope{Everyone: true})
	switch {
	case err != nil:
		return tables.CannotCheck("%s", v.explainError(err))
	case config.Blocked:
		return tables.Finding{Status: tables.Wrong, Found: "the system is blocked", Means: "no call is admitted at all", Fix: v.tableCommand("system show")}
	case config.BlockedExcept:
		return tables.Finding{Status: tables.Wrong, Found: "the system is blocked with exceptions", Means: "no call is admitted but those of exceptions", Fix: v.tableCommand("system show")}
	case config.Unlimited:
		return tables.Finding{Status: tables.Hint, Found: "the system is unlimited", Means: "entities without limits of their own are not limited", Fix: v.tableCommand("system show")}
	case len(config.Limits) == 0:
		return tables.Finding{
			Status: tables.Hint, Found: "there are none", Means: "calls of an entity that has no other limits fail, unless the service gives some to New",
			Fix: v.tableCommand("system set rpm=100"),
		}
	}
	return tables.Fine("%s", notation.CountText(len(config.Limits), "limit"))
}

// deleteItemCommand returns an AWS CLI command that deletes the item of a key in the table of limits and prints
// its old value. It runs nothing.
func (v *visit) deleteItemCommand(key schema.Key) string {
	return v.table.Flags.OfAWS(`dynamodb delete-item --table-name %s --key '{"PK":{"S":%q},"SK":{"S":%q}}' --return-values ALL_OLD`, v.table.Name(), key.PK, key.SK)
}
