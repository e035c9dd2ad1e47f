package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

// orgsCmd and appsCmd configure organisations and apps.
type orgsCmd struct {
	List orgsListCmd `cmd:"" help:"List the organisations."`
	Show orgsShowCmd `cmd:"" help:"Show an organisation's configuration."`
	Put  orgsPutCmd  `cmd:"" help:"Create an organisation, or change the given fields."`

	Delete orgsDeleteCmd `cmd:"" help:"Delete an organisation with its apps and credentials."`
}

type appsCmd struct {
	List appsListCmd `cmd:"" help:"List an organisation's apps."`
	Show appsShowCmd `cmd:"" help:"Show an app's own configuration, without inherited fields."`
	Put  appsPutCmd  `cmd:"" help:"Create an app, or change the given fields."`

	Delete appsDeleteCmd `cmd:"" help:"Delete an app with its credentials."`
}

// orgJSON is an organisation as JSON. After a change it includes the labels without a price.
type orgJSON struct {
	budget.Org
	Unpriced []string `json:"unpriced,omitempty"`
}

// appJSON is the same for an app.
type appJSON struct {
	Org string `json:"org_id"`
	budget.App
	Unpriced []string `json:"unpriced,omitempty"`
}

// printPolicy prints the fields of p that organisations and apps share, if set, with quotas in dollars a day.
// It adds advice for each label of unpriced, which has no model with a price. more are further pairs of name
// and value, printed last.
func printPolicy(out *term.Output, p budget.App, unpriced []string, more ...string) {
	facts := []string{
		"name", p.Name, "ordering", strings.Join(p.Ordering, " → "),
		"quotas", joinPairs(p.Quotas, func(n int64) string { return dollars(n).String() + " a day" }),
		"models", joinPairs(p.Models, func(id string) string { return id }),
	}
	if p.TightPercent > 0 {
		facts = append(facts, "tight at", fmt.Sprintf("%d %%", p.TightPercent))
	}
	for _, label := range unpriced {
		facts = append(facts, "unpriced", fmt.Sprintf("%s has no model with a price and is skipped, unless a service's options have one: "+
			"correct --model, or store a price with 'dynalimit budget prices set'", label))
	}
	printFields(out, append(facts, more...)...)
}

// unpricedLabels returns the labels of an organisation or, unless app is "", of an app, without a priced model;
// recommendations skip them. Call it after a change: its error says that the change is written.
func unpricedLabels(ctx context.Context, k *budget.Keeper, org, app string) ([]string, error) {
	totals, err := k.Totals(ctx, org, app, "")
	if err != nil {
		return nil, fmt.Errorf("the change is written, but its prices cannot be looked up: %w", err)
	}
	var labels []string
	for _, l := range totals.Labels {
		if l.Status == prices.StatusUnpriced {
			labels = append(labels, l.Label)
		}
	}
	return labels, nil
}

// namedSuffix returns two spaces and the dimmed name, for the end of a line, or "" without a name.
func namedSuffix(out *term.Output, name string) string {
	if name == "" {
		return ""
	}
	return "  " + out.Dim(term.Plain(name))
}

// joinPairs lists a map's entries as "name value", sorted by name and separated by commas. show
// formats a value.
func joinPairs[V any](values map[string]V, show func(V) string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, name+" "+show(values[name]))
	}
	return strings.Join(parts, ", ")
}

// printText prints the configuration of an organisation for people, with its time zone, the scope of its
// quotas, and its labels without a price.
func (j orgJSON) printText(out *term.Output) {
	fmt.Fprintf(out, "%s\n", out.Bold(j.ID))
	printPolicy(out, budget.App{Name: j.Name, Ordering: j.Ordering, Quotas: j.Quotas, Models: j.Models, TightPercent: j.TightPercent}, j.Unpriced,
		"counted", j.Timezone+", per "+strings.ToLower(string(j.Scope)))
}

// printText prints an app's own configuration for people, with its labels without a price. Without ordering,
// quotas and models it says that the app inherits everything.
func (j appJSON) printText(out *term.Output) {
	fmt.Fprintf(out, "%s\n", out.Bold(j.ID))
	printPolicy(out, j.App, j.Unpriced)
	if len(j.Ordering)+len(j.Quotas)+len(j.Models) == 0 {
		fmt.Fprintln(out, out.Dim("  inherits everything"))
	}
}

type orgsListCmd struct{}

// Run prints all organisations with their ordering and name, sorted by id, or a hint without organisations.
func (orgsListCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return showResult(ctx, b, out, func(k *budget.Keeper) ([]budget.Org, error) {
		all, err := collectAll(k.Setup().Orgs(ctx))
		slices.SortFunc(all, func(x, y budget.Org) int { return strings.Compare(x.ID, y.ID) })
		return all, err
	}, func(all []budget.Org) {
		if len(all) == 0 {
			fmt.Fprintln(out, "No organisations yet. 'dynalimit budget orgs put --help' shows how to make one.")
		}
		for _, org := range all {
			fmt.Fprintf(out, "%s  %s%s\n", org.ID, strings.Join(org.Ordering, " → "), namedSuffix(out, org.Name))
		}
	})
}

type orgsShowCmd struct {
	Org string `arg:"" help:"The organisation's id."`
}

// Run prints the configuration of an organisation. It fails if the organisation does not exist.
func (c orgsShowCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return showResult(ctx, b, out, func(k *budget.Keeper) (j orgJSON, err error) {
		j.Org, err = k.Setup().GetOrg(ctx, c.Org)
		return j, err
	}, func(j orgJSON) { j.printText(out) })
}

// policyFlags are the flags that organisations and apps share.
type policyFlags struct {
	Name     string             `help:"Name for people."`
	Ordering []string           `help:"Labels from the preferred to the last resort." placeholder:"LABEL,…"`
	Quota    map[string]dollars `help:"The daily quota of a label; repeat per label. Those not given stay." placeholder:"LABEL=USD"`
	Model    map[string]string  `help:"The model id of a label; repeat per label. Those not given stay." placeholder:"LABEL=ID"`
	Tight    int                `help:"Percent of a quota where mode TIGHT begins." placeholder:"PERCENT"`
}

// applyFlags overwrites the fields of given flags. Quotas, in micro-dollars, and models it adds to the old ones
// by label, in new maps. Fields without a flag stay.
func (f policyFlags) applyFlags(name *string, ordering *[]string, quotas *map[string]int64, models *map[string]string, tight *int) {
	if f.Name != "" {
		*name = f.Name
	}
	if len(f.Ordering) > 0 {
		*ordering = f.Ordering
	}
	*quotas, *models = overlayMap(*quotas, inMicros(f.Quota)), overlayMap(*models, f.Model)
	if f.Tight != 0 {
		*tight = f.Tight
	}
}

// orgToChange returns the stored organisation, or else an unstored new one with only its id and
// budget.NoVersion. PutOrg refuses the new one if another caller creates it first.
func orgToChange(ctx context.Context, k *budget.Keeper, id string) (budget.Org, error) {
	org, err := k.Setup().GetOrg(ctx, id)
	if errors.Is(err, budget.ErrNotFound) {
		return budget.Org{ID: id, Version: budget.NoVersion}, nil
	}
	return org, err
}

// appToChange returns the stored app, or else an unstored new one with only its id and budget.NoVersion. PutApp
// refuses the new one if another caller creates it first. An app with calls but without a configuration counts
// as new.
func appToChange(ctx context.Context, k *budget.Keeper, org, id string) (budget.App, error) {
	app, err := k.Setup().GetApp(ctx, org, id)
	if errors.Is(err, budget.ErrNotFound) || err == nil && app.Version == 0 { // a call registered it, without a PUT
		return budget.App{ID: id, Version: budget.NoVersion}, nil
	}
	return app, err
}

// putTries is the maximal number of retries of a change that others overtake.
const putTries = 20

// retryOnConflict runs change, which reads, changes and writes. If another caller writes first, it repeats
// change after a pause, up to putTries times and until ctx ends. It returns the last error, and does not repeat
// if the object is being deleted.
func retryOnConflict(ctx context.Context, change func() error) error {
	pause := ddb.Backoff{First: 20 * time.Millisecond, Most: time.Second}
	for n := 0; ; n++ {
		err := change()
		if n == putTries || !errors.Is(err, budget.ErrConflict) || beingDeleted(err) || !pause.Pause(ctx, n) {
			return err
		}
	}
}

// overlayMap returns old with the entries of changes on top. It changes neither map, and returns
// old itself if changes is empty.
func overlayMap[V any](old, changes map[string]V) map[string]V {
	if len(changes) == 0 {
		return old
	}
	out := map[string]V{}
	maps.Copy(out, old)
	maps.Copy(out, changes)
	return out
}

type orgsPutCmd struct {
	Org string `arg:"" help:"The organisation's id, a UUID."`
	policyFlags
	Timezone string    `help:"IANA name of the time zone of the days. UTC for a new organisation; it cannot be changed."`
	Scope    scopeFlag `help:"The spend that a quota counts: the organisation's (org) or each app's (app); it cannot be changed." placeholder:"org|app"`
	Shards   int       `help:"How many counters a day is spread over."`
	Sticky   *bool     `help:"Keep a record of the label in use. Default: it is kept." negatable:""`
}

// applyChanges overwrites the fields of org for given flags, and leaves the rest. It adds quotas and models to
// the old ones by label.
func (c orgsPutCmd) applyChanges(org *budget.Org) {
	c.applyFlags(&org.Name, &org.Ordering, &org.Quotas, &org.Models, &org.TightPercent)
	if c.Timezone != "" {
		org.Timezone = c.Timezone
	}
	if c.Scope != "" {
		org.Scope = budget.Scope(c.Scope)
	}
	if c.Shards != 0 {
		org.Shards = c.Shards
	}
	if c.Sticky != nil {
		org.NoSticky = !*c.Sticky
	}
}

// Run creates an organisation, or changes the fields of the given flags. If another caller changes it
// meanwhile, it reads the organisation again and retries, up to putTries times. It prints the stored
// organisation and its labels without a price.
func (c orgsPutCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return showResult(ctx, b, out, func(k *budget.Keeper) (j orgJSON, err error) {
		err = retryOnConflict(ctx, func() error {
			org, err := orgToChange(ctx, k, c.Org)
			if err != nil {
				return err
			}
			c.applyChanges(&org)
			j.Org, err = k.Setup().PutOrg(ctx, org)
			return err
		})
		if err == nil {
			j.Unpriced, err = unpricedLabels(ctx, k, c.Org, "")
		}
		return j, err
	}, func(j orgJSON) { j.printText(out) })
}
