package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// sourceSet is the new configuration of a source.
type sourceSet struct {
	Limits        []string `arg:"" optional:"" name:"limit" sep:"none" help:"Limits, NAME=CAPACITY[/PERIOD][,burst=N][,refill=N][,max-debt=N][,reserve=N][,shadow], such as rpm=100 or tpm=40k/1m,burst=80k,reserve=20%; or quotas of the calendar, NAME=CAPACITY/daily[,zone=ZONE][,alert-at=50+80+100], or hourly, weekly, monthly; of money with dollars, 'NAME=$50/daily[,per-model]'. They replace those that are set."`
	Unlimited     bool     `help:"Lift all limits at this source, instead of setting any. Nothing is counted."`
	Counted       bool     `help:"With --unlimited: count calls by the limits that would be in force otherwise; they deny nothing."`
	OnUnavailable *string  `help:"The outage policy, while DynamoDB does not answer: block, allow or local; none leaves it to less specific sources." enum:"block,allow,local,none" placeholder:"POLICY"`
	Only          bool     `help:"Limits in force that the change takes out of force are meant to go: money, and those of less specific sources that the list hides."`
	Version       *int64   `help:"Change the source only if it has this version, as 'show --json' prints it. Default: the one found." placeholder:"N"`
	changes
}

// Validate refuses malformed limits, limits beside --unlimited, and --counted without --unlimited.
func (c *sourceSet) Validate() error {
	switch {
	case c.Counted && !c.Unlimited:
		return errors.New("--counted says how --unlimited counts: give both, or leave it out")
	case c.Unlimited && len(c.Limits) > 0:
		return fmt.Errorf("--unlimited lifts limits and %s sets one: leave one of them out", c.Limits[0])
	}
	_, err := c.parseLimits()
	return err
}

// hasChanges reports whether the flags give limits, --unlimited or --on-unavailable. --only and --version alone
// do not count.
func (c *sourceSet) hasChanges() bool {
	return c.Unlimited || len(c.Limits) > 0 || c.OnUnavailable != nil
}

// requireChange returns an error if the flags set nothing. others is a text for the error that names further
// flags of the command, such as ", or --group".
func (c *sourceSet) requireChange(others string) error {
	if c.hasChanges() {
		return nil
	}
	return fmt.Errorf("nothing is to be set: give limits, such as %s, or --unlimited, or --on-unavailable%s", notation.Example, others)
}

// parseLimits returns the limits of the arguments in their order, without defaults. The first malformed one is
// the error.
func (c *sourceSet) parseLimits() ([]dynalimit.Limit, error) {
	limits := make([]dynalimit.Limit, len(c.Limits))
	for i, text := range c.Limits {
		var err error
		if limits[i], err = notation.ParseLimit(text); err != nil {
			return nil, err
		}
	}
	return limits, nil
}

// applyTo returns config with the given flags applied; a malformed limit is an error. New limits or --unlimited
// replace the old limits, lifted limits and raises, and the source no longer extends others. The policy none
// clears the outage policy; other settings stay.
func (c *sourceSet) applyTo(config admin.LimitConfig) (admin.LimitConfig, error) {
	limits, err := c.parseLimits()
	if err != nil {
		return config, err
	}
	config.Only = c.Only
	if c.Unlimited || len(limits) > 0 {
		config.Limits, config.Unlimited, config.Counted, config.Extends, config.Lifted, config.Raises = limits, c.Unlimited, c.Counted, false, nil, nil
	}
	if c.OnUnavailable != nil {
		config.OnUnavailable = dynalimit.UnavailablePolicy(*c.OnUnavailable)
		if *c.OnUnavailable == "none" {
			config.OnUnavailable = ""
		}
	}
	if c.Version != nil {
		config.Version = *c.Version
	}
	return config, nil
}

// sourceChange is a change of one source as JSON.
type sourceChange struct {
	Scope   admin.Scope       `json:"scope"`
	Before  admin.LimitConfig `json:"before"`
	After   admin.LimitConfig `json:"after"`
	Changed bool              `json:"changed"`
	DryRun  bool              `json:"dry_run"`
	// Warnings describe effects that may be unintended.
	Warnings []string `json:"warnings,omitempty"`
}

// deleteSource removes the whole configuration of the source at and prints the differences. It fails if that
// takes a limit of money out of force, unless only is true. A dry run stores nothing and does not check that.
func deleteSource(ctx context.Context, g *globals, out *term.Output, at admin.Scope, only bool, how changes) error {
	return changeSource(ctx, g, out, at, how, func(c admin.LimitConfig) (admin.LimitConfig, error) {
		return admin.LimitConfig{Version: c.Version, Only: only}, nil
	})
}

// changeSource reads the configuration of the source at, stores the result of change, and prints the
// differences and warnings about them. An empty result removes the source. A dry run validates the result
// without storing it.
func changeSource(
	ctx context.Context, g *globals, out *term.Output, at admin.Scope, how changes,
	change func(admin.LimitConfig) (admin.LimitConfig, error),
) error {
	return g.changeTable(ctx, out, func(repo *dynalimit.Repository) error {
		before, err := admin.New(repo).Limits.GetConfig(ctx, at)
		if err != nil {
			return err
		}
		wanted, err := change(before)
		if err != nil {
			return err
		}
		after, err := storeSource(ctx, repo, at, wanted, how.DryRun)
		if err != nil {
			return err
		}
		lines := diffFacts(out, configFacts(before), configFacts(after))
		j := sourceChange{at, before, after, len(lines) > 0, how.DryRun, append(before.WarnOfChange(after), warnOfHidden(ctx, repo, at, before, after)...)}
		return out.Show(j, func() {
			printChange(out, at.String(), lines, how.DryRun)
			for _, warning := range j.Warnings {
				fmt.Fprintln(out, out.Yellow("warning: "+term.Plain(warning)))
			}
		})
	})
}

// storeSource stores c at the source, or removes the source if c has no settings. It returns the stored
// configuration, which is zero after a removal. A dry run only validates c and returns it with default values.
func storeSource(ctx context.Context, repo *dynalimit.Repository, at admin.Scope, c admin.LimitConfig, dryRun bool) (admin.LimitConfig, error) {
	says := len(configFacts(c)) > 0
	switch {
	case dryRun && !says:
		return c, nil
	case dryRun:
		c.Limits = notation.WithDefaults(c.Limits)
		return c, admin.ScopedConfig{Scope: at, Config: c}.Validate()
	case says:
		return admin.New(repo).Limits.SetConfig(ctx, at, c)
	}
	errs, err := admin.New(repo).Limits.SetConfigs(ctx, []admin.ScopedConfig{{Scope: at, Config: admin.LimitConfig{Version: c.Version, Only: c.Only}, Delete: true}})
	return admin.LimitConfig{}, errors.Join(append(errs, err)...)
}

// printChange prints the name of the changed item and the lines of its differences, then that they are stored,
// or only a dry run. Without lines it prints that nothing changes.
func printChange(out *term.Output, what string, lines []string, dryRun bool) {
	done := "Stored. In force everywhere within a minute."
	if len(lines) == 0 {
		done, dryRun = "Nothing to change: this is stored already.", false
	}
	printDone(out, what, lines, dryRun, done)
}

// printDone prints the name of the changed item, the lines of its change, and the sentence done. In a dry run
// it replaces done by the sentence that nothing was changed.
func printDone(out *term.Output, what string, lines []string, dryRun bool, done string) {
	fmt.Fprintln(out, out.Bold(term.Plain(what)))
	for _, line := range lines {
		fmt.Fprintln(out, "  "+line)
	}
	if dryRun {
		done = "Dry run: nothing was changed."
	}
	fmt.Fprintln(out, done)
}

// diffFacts returns a coloured line for each fact that differs between was and is, sorted by name. It begins
// with + for a new, - for a removed, ~ for a changed one. An empty text counts as missing.
func diffFacts(out *term.Output, was, is map[string]string) []string {
	var names []string
	for name := range was {
		names = append(names, name)
	}
	for name := range is {
		if _, both := was[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var lines []string
	for _, name := range names {
		switch old, now := term.Plain(was[name]), term.Plain(is[name]); {
		case was[name] == is[name]:
		case old == "":
			lines = append(lines, out.Green(fmt.Sprintf("+ %s  %s", term.Plain(name), now)))
		case now == "":
			lines = append(lines, out.Red(fmt.Sprintf("- %s  %s", term.Plain(name), old)))
		default:
			lines = append(lines, out.Yellow(fmt.Sprintf("~ %s  %s → %s", term.Plain(name), old, now)))
		}
	}
	return lines
}

// unlimitedText describes the effect of an unlimited source for people.
func unlimitedText(c admin.LimitConfig) string {
	if c.Counted {
		return "no limits apply; less specific ones count and deny nothing"
	}
	return "no limits apply"
}

// configFacts returns the limits, settings and raises of a configuration as texts by name, for diffFacts. It is
// empty for a configuration without any.
func configFacts(c admin.LimitConfig) map[string]string {
	all := map[string]string{}
	for _, l := range c.Limits {
		all[l.Name] = notation.DescribeLimit(l)
	}
	for _, name := range c.Lifted {
		all[name] = "unlimited"
	}
	if c.Extends {
		all["extends"] = "less specific sources' other limits apply too"
	}
	if c.Unlimited {
		all["unlimited"] = unlimitedText(c)
	}
	if c.Blocked {
		all["blocked"] = "no call is admitted"
	}
	if c.BlockedExcept {
		all["blocked"] = "no call is admitted but those of exceptions"
	}
	if c.Admit {
		all["admitted"] = "an exception of less specific blocks that have some"
	}
	if c.OnUnavailable != "" {
		all["on unavailable"] = string(c.OnUnavailable)
	}
	if len(c.Groups) > 0 {
		all["in groups"] = strings.Join(c.Groups, ", ")
	}
	for _, r := range c.Raises {
		all[r.Name+" raised"] = raiseText(r)
	}
	return all
}

// showSource reads the configuration stored at the source and prints it, or that nothing is set there. It
// leaves out limits of other sources.
func showSource(ctx context.Context, g *globals, out *term.Output, at admin.Scope) error {
	return g.readTable(ctx, out, func(repo *dynalimit.Repository) error {
		config, err := admin.New(repo).Limits.GetConfig(ctx, at)
		if err != nil {
			return err
		}
		return out.Show(admin.ScopedConfig{Scope: at, Config: config}, func() {
			fmt.Fprintln(out, out.Bold(at.String()))
			printSource(out, config)
		})
	})
}

// printSource prints the limits and settings of a source's configuration, a line each, or that nothing is set
// at the source.
func printSource(out *term.Output, c admin.LimitConfig) {
	if c.Version == 0 && len(configFacts(c)) == 0 {
		fmt.Fprintln(out, "  Nothing is set here: less specific sources decide.")
		return
	}
	printLimits(out, c.Limits)
	for _, name := range c.Lifted {
		fmt.Fprintf(out, "  %s  unlimited\n", name)
	}
	if c.Extends {
		fmt.Fprintln(out, "  extends: less specific sources' other limits apply too")
	}
	if c.Unlimited {
		fmt.Fprintln(out, "  unlimited: "+unlimitedText(c))
	}
	if c.Blocked {
		fmt.Fprintln(out, "  "+out.Red("blocked: no call is admitted"))
	}
	if c.BlockedExcept {
		fmt.Fprintln(out, "  "+out.Red("blocked: no call is admitted but those of exceptions"))
	}
	if c.Admit {
		fmt.Fprintln(out, "  admitted: an exception of less specific blocks that have some")
	}
	if c.OnUnavailable != "" {
		fmt.Fprintf(out, "  while DynamoDB does not answer: %s\n", c.OnUnavailable)
	}
	if len(c.Groups) > 0 {
		fmt.Fprintf(out, "  in groups: %s\n", term.Plain(strings.Join(c.Groups, ", ")))
	}
	for _, r := range c.Raises {
		fmt.Fprintf(out, "  %s is raised %s\n", r.Name, raiseText(r))
	}
}

// printLimits prints a line for each limit, with the names aligned.
func printLimits(out *term.Output, limits []dynalimit.Limit) {
	width := 0
	for _, l := range limits {
		width = max(width, len(l.Name))
	}
	for _, l := range limits {
		fmt.Fprintf(out, "  %s%s  %s\n", l.Name, strings.Repeat(" ", width-len(l.Name)), notation.DescribeLimit(l))
	}
}

// requireName returns an error for an empty name, which would mean everybody, else nil. The error uses what,
// the noun of the object, such as "plan".
func requireName(what, name string) error {
	if err := requireWord("name of the "+what, name); err != nil {
		return fmt.Errorf("%w; 'dynalimit system' is about everybody", err)
	}
	return nil
}
