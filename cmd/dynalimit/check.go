package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/decision"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// checkCmd explains the decision about a call without making it.
type checkCmd struct {
	Entity   string   `arg:"" help:"The entity's id."`
	Resource string   `arg:"" help:"The resource that it asks for."`
	Amounts  []string `arg:"" optional:"" name:"amount" sep:"none" help:"Requested amounts, NAME=N, such as rpm=1 tpm=2000 'usd=$0.02'. Default: none, to see the remaining tokens."`
	Batch    bool     `help:"As a batch call, which leaves the reserve of each limit to interactive calls."`
}

// Validate refuses malformed amounts.
func (c checkCmd) Validate() error {
	_, err := notation.ParseAmounts(c.Amounts)
	return err
}

// Run prints whether a call with the amounts would be admitted now, and why. It takes no tokens. If the call
// would be denied, is blocked, or has no configured limits, it returns errNo after that.
func (c checkCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	asked, err := notation.ParseAmounts(c.Amounts)
	if err != nil {
		return badInput("%w", err)
	}
	return g.readTable(ctx, out, func(repo *dynalimit.Repository) error {
		d, err := decision.Read(ctx, repo, c.Entity, c.Resource, asked, c.Batch, now(ctx))
		if err != nil {
			return err
		}
		if err := out.Show(d, func() { printDecision(out, d) }); err != nil {
			return err
		}
		if d.Outcome != decision.Allowed && d.Outcome != decision.Unlimited {
			return errNo
		}
		return nil
	})
}

// printDecision prints a decision for people: the verdict, each entity of the chain with its buckets, and the
// outage policy with its source.
func printDecision(out *term.Output, d *decision.Decision) {
	fmt.Fprintf(out, "%s on %s: %s\n", out.Bold(term.Plain(d.EntityID)), out.Bold(term.Plain(d.Resource)), verdictText(out, d))
	for i, link := range d.Chain {
		printLink(out, d, link, i)
	}
	if d.OnUnavailable != "" {
		from := "the service's own default, no source sets it"
		switch {
		case d.PolicySource == "" && d.RequestsMoney():
			from = "because it asks for money, and no source says otherwise"
		case d.PolicySource != "":
			from = fmt.Sprintf("from %s of %s", d.PolicySource, term.Plain(d.PolicyOf))
		}
		fmt.Fprintf(out, "While DynamoDB does not answer: %s, %s.\n", d.OnUnavailable, from)
	}
	fmt.Fprintln(out, out.Dim("Read now; a running service may know the configuration up to its ConfigTTL later, a minute by default."))
}

// verdictText returns the outcome of the call as a coloured sentence. It includes the wait of a denied call,
// and the blocking source. Without amounts it only announces the balances.
func verdictText(out *term.Output, d *decision.Decision) string {
	switch d.Outcome {
	case decision.Denied:
		return out.Red("would be denied; " + whenText(d, d.Wait))
	case decision.Blocked:
		for _, link := range d.Chain {
			if link.Blocked != "" {
				return out.Red(fmt.Sprintf("blocked by the source %s of %s: no call is admitted", link.Blocked, term.Plain(link.EntityID)))
			}
			for _, group := range link.Groups {
				if group.Blocked != "" {
					return out.Red(fmt.Sprintf("blocked by the source %s of %s on the group %s: no call is admitted", group.Blocked, term.Plain(link.EntityID), term.Plain(group.Name)))
				}
			}
		}
		return out.Red("blocked: no call is admitted")
	case decision.Unlimited:
		return out.Green("would be admitted: nothing limits it")
	case decision.Unconfigured:
		return out.Yellow("no source has limits: a service uses the limits that it gives to New, if any; set some with 'dynalimit system set rpm=100'")
	case decision.Allowed:
		if len(d.Asked) == 0 {
			return out.Green("no amounts were given; the balances are:")
		}
	}
	return out.Green("would be admitted")
}

// whenText describes when a denied call would fit by w: "fits in" the wait and the time of day, or "never fits"
// with the reason.
func whenText(d *decision.Decision, w *decision.Wait) string {
	if w.Never && d.Batch {
		return "never fits: more is asked for than the limit ever holds above the reserve of interactive calls"
	}
	if w.Never {
		return "never fits: more is asked for than the limit ever holds"
	}
	return fmt.Sprintf("fits in %s, at %s", notation.WaitText(w.For), clockTime(d.At, *w.Until))
}

// clockTime formats at as a time of day with its zone, rounded up to the second. It adds the date if at is on
// another day than now.
func clockTime(now, at time.Time) string {
	at = at.Add(time.Second - 1).Truncate(time.Second)
	if at.Sub(now) < 24*time.Hour && at.YearDay() == now.YearDay() {
		return at.Format("15:04:05 MST")
	}
	return at.Format("2006-01-02 15:04:05 MST")
}

const limitBar = 20

// printLink prints an entity of the chain with its bucket and those of its groups. depth is 0 for the caller
// itself, more for its parents. It warns if the entity's plan has no configuration, and says if a group has
// none.
func printLink(out *term.Output, d *decision.Decision, link decision.Link, depth int) {
	title := out.Bold(term.Plain(link.EntityID))
	if depth > 0 {
		title += out.Dim("  charged too, as the parent")
	}
	if link.Plan != "" {
		title += out.Dim("  on the plan " + term.Plain(link.Plan))
	}
	fmt.Fprintln(out, "\n"+title)
	if link.Plan != "" && !link.HasPlanConfig() {
		fmt.Fprintln(out, "  "+out.Yellow("! the plan "+term.Plain(link.Plan)+" says nothing here: set its limits, or correct the name; 'dynalimit plan list' shows the plans"))
	}
	printCharged(out, d, link.Bucket)
	for _, group := range link.Groups {
		fmt.Fprintln(out, "\n"+out.Bold(term.Plain(link.EntityID))+" on the group "+out.Bold(term.Plain(group.Name)))
		if !group.HasConfig() {
			fmt.Fprintln(out, "  "+noGroupLimits)
			continue
		}
		printCharged(out, d, group.Bucket)
	}
}

// printCharged prints a bucket that the call charges: its limits as bars, its raises, and its sources with
// their settings. A narrow terminal gets no table of sources, but a list. It says if the bucket is blocked,
// unlimited or without limits.
func printCharged(out *term.Output, d *decision.Decision, b decision.Bucket) {
	switch {
	case b.Blocked != "":
		fmt.Fprintln(out, "  "+out.Red("blocked by the source "+string(b.Blocked)))
	case b.Unlimited:
		fmt.Fprintf(out, "  unlimited, by the source %s\n", b.Source)
	case b.Source == "":
		fmt.Fprintln(out, "  no source has limits")
	}
	width := 0
	for _, l := range b.Limits {
		width = max(width, len(l.Limit.Name))
	}
	for _, l := range b.Limits {
		printBar(out, d, l, width)
	}
	for _, r := range b.Raised {
		fmt.Fprintf(out, "  %s is raised from %s until %s, by the source %s\n", term.Plain(r.Name), notation.GroupedNumber(r.Capacity), endText(r.Until), r.Source)
	}
	if out.Width > 0 && out.Width < narrowTable {
		printSourcesBelow(out, b.Sources)
		return
	}
	rows := make([][]string, len(b.Sources))
	for i, l := range b.Sources {
		rows[i] = []string{"  " + string(l.Source), l.Scope.String(), configText(l.Config), sourceEffect(l)}
	}
	out.Table([]string{"  SOURCE", "OF", "SAYS", ""}, rows)
}

// narrowTable is the minimal width of a terminal for a table of sources.
const narrowTable = 60

// printSourcesBelow prints the sources below each other, for terminals too narrow for a table. It skips a
// source without any setting.
func printSourcesBelow(out *term.Output, sources []decision.Source) {
	for _, l := range sources {
		if said := configText(l.Config); said != "-" {
			fmt.Fprintf(out, "  %s: %s\n    %s\n", l.Source, cmp.Or(sourceEffect(l), "says"), strings.ReplaceAll(said, "; ", "\n    "))
		}
	}
}

// printBar prints the remaining part of a limit as a bar and text, with the amount asked, the limit and its
// source. A second line tells the wait of a denied call, the end of the window, or the time until the limit is
// full. width is the columns of the names.
func printBar(out *term.Output, d *decision.Decision, l decision.Limit, width int) {
	burst := max(1, l.Limit.Burst)
	left := levelText(l.Limit, l.Remaining, " left")
	if l.Asked > 0 {
		left += ", asked " + notation.AmountInUnit(l.Limit.Unit, l.Asked)
	}
	about, from := notation.DescribeLimit(l.Limit), "from "+cmp.Or(string(l.Source), "an older configuration")
	bar, indent, between := limitBar, width+3, ", "
	if out.Width > 0 && out.Width < narrowTable {
		bar, indent, between, from = min(limitBar, bucketBar(out.Width, 4+width+len(left))), 4, "\n    ", "\n    "+from
	} else {
		from = " " + from
	}
	drawn := ""
	if bar > 0 {
		drawn = levelBar(out, l.Remaining, burst, l.Denied, bar)
	}
	fmt.Fprintf(out, "  %-*s %s%s%s%s\n", width, term.Plain(l.Limit.Name), drawn, left, between, about+from)
	more := ""
	switch full := time.Duration(l.FullMS) * time.Millisecond; {
	case l.Denied:
		more = out.Red("denied: " + whenText(d, l.Wait))
	case l.WouldDeny:
		more = out.Yellow("enforced, it would be denied: " + whenText(d, l.Wait))
	case l.WindowEnds != nil:
		more = out.Dim(fmt.Sprintf("the %s ends in %s, at %s", l.Limit.Window, notation.WaitText(l.WindowEnds.Sub(d.At)), clockTime(d.At, *l.WindowEnds)))
	case full > 0:
		more = out.Dim("full in " + notation.WaitText(full))
	}
	if more != "" {
		fmt.Fprintf(out, "%*s%s\n", indent, "", more)
	}
}

// configText describes the whole configuration of a source in one line: its block, limits, policy, groups and
// raises. It returns "-" if it is empty.
func configText(c admin.LimitConfig) string {
	text := ""
	add := func(part string) {
		if text != "" {
			text += "; "
		}
		text += part
	}
	if c.Blocked {
		add("blocked")
	}
	if c.BlockedExcept {
		add("blocked with exceptions")
	}
	if c.Admit {
		add("admitted")
	}
	if c.Unlimited {
		add("unlimited")
	}
	if c.Counted {
		add("counted")
	}
	for _, limit := range c.Limits {
		add(limit.Name + " " + notation.DescribeLimit(limit))
	}
	if c.OnUnavailable != "" {
		add("in outages " + string(c.OnUnavailable))
	}
	if len(c.Groups) > 0 {
		add("in groups " + strings.Join(c.Groups, ", "))
	}
	for _, r := range c.Raises {
		add(r.Name + " raised " + raiseText(r))
	}
	return orDash(text)
}

// sourceEffect describes the effect of a source on the call: "admits nothing", "admits exceptions", "in force",
// or "hidden by" another source. A block comes first. It returns "" for a source without effect.
func sourceEffect(l decision.Source) string {
	switch {
	case l.Config.Blocked:
		return "admits nothing"
	case l.Config.BlockedExcept:
		return "admits exceptions"
	case l.InForce:
		return "in force"
	case l.HiddenBy != "":
		return "hidden by " + string(l.HiddenBy)
	}
	return ""
}
