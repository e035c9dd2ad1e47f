package manifest

import (
	"fmt"
	"strings"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// folded is the number of printed changes of one kind, unless all are requested.
const folded = 20

// Show prints the changes of a plan by action, its warnings, raises, sources by hand, numbers of left out and
// unmanaged items, and its summary. file is the manifest's name; without full it prints at most 20 changes of
// an action.
func Show(out *term.Output, p Plan, file string, full bool) {
	for _, action := range Actions {
		showAction(out, p, action, full)
	}
	for _, w := range p.Warnings {
		fmt.Fprintln(out, out.Yellow("warning: "+term.Plain(w)))
	}
	for _, r := range p.Raises {
		fmt.Fprintf(out, "%s: %s is raised to %s until %s; that stays.\n", term.Plain(r.Scope.String()), r.Raise.Name, amountOf(r.Raise.Capacity), r.Raise.Until.Local().Format("2006-01-02 15:04:05 -07:00"))
	}
	showByHand(out, p.ByHand, full)
	if p.LeftOut > 0 {
		fmt.Fprintf(out, "%s %q manages and %s does not name stay as they are: --prune-entities deletes them, with their limits and buckets.\n",
			countText(p.LeftOut, "entity that", "entities that"), p.Name, file)
	}
	if p.Unmanaged > 0 {
		fmt.Fprintf(out, "%s with the file, and no manifest manages them: --adopt takes them over.\n", countText(p.Unmanaged, "item agrees", "items agree"))
	}
	fmt.Fprintln(out, Summary(p, file))
}

// showByHand prints the sources that were set by hand, with their fields, and advice. Without full it prints at
// most 20. It prints nothing without any.
func showByHand(out *term.Output, sources []ByHand, full bool) {
	for i, l := range sources {
		if !full && i == folded {
			fmt.Fprintln(out, out.Dim(fmt.Sprintf("  ... and %s by hand: --full shows them", countText(len(sources)-i, "more source", "more sources"))))
			break
		}
		says := make([]string, len(l.Fields))
		for i, f := range l.Fields {
			says[i] = strings.TrimSuffix(f.Name+" "+f.To, " true")
		}
		fmt.Fprintln(out, out.Yellow("warning: "+term.Plain(fmt.Sprintf("%s has a source by hand: %s", l.Scope, strings.Join(says, ", ")))))
	}
	if len(sources) > 0 {
		fmt.Fprintln(out, "Sources by hand stay: write them into the file and apply it with --adopt, or remove them with 'dynalimit limits delete' or 'dynalimit block lift'.")
	}
}

// Summary returns a plan as one line: the number of changes by action, or that nothing changes, and the number
// of unchanged items. file is the manifest's name.
func Summary(p Plan, file string) string {
	var parts []string
	for _, action := range Actions {
		if n := p.Count(action); n > 0 {
			words := amountOf(int64(n)) + " to " + string(action)
			if action == Refuse {
				words = amountOf(int64(n)) + " refused"
			}
			parts = append(parts, words)
		}
	}
	if len(parts) == 0 && len(p.ByHand) > 0 {
		return fmt.Sprintf("Nothing to change, but %s not in %s.", countText(len(p.ByHand), "source by hand is", "sources by hand are"), file)
	}
	if len(parts) == 0 {
		return fmt.Sprintf("Nothing to change: the table agrees with %s (%s).", file, countText(p.Unchanged, "item", "items"))
	}
	text := "Plan: " + strings.Join(parts, ", ")
	if p.Unchanged > 0 {
		text += "; " + countText(p.Unchanged, "item is", "items are") + " as the file says"
	}
	return text + "."
}

// countText returns n, with separators as manifests write it, and its noun: one for 1, more for other numbers.
func countText(n int, one, more string) string {
	return amountOf(int64(n)) + " " + notation.Plural(n, one, more)
}

// Size returns the numbers of a manifest's sources and entities as a text, such as "3 sources and 12 entities".
func Size(m *Manifest) string {
	return fmt.Sprintf("%s and %s", countText(len(m.Configs), "source", "sources"), countText(len(m.Entities), "entity", "entities"))
}

var signs = map[Action]string{Create: "+", Update: "~", Delete: "-", Adopt: "=", Refuse: "!"}

// paintAction returns text coloured by an action: create green, update and adopt yellow, delete and refuse red.
func paintAction(out *term.Output, a Action, text string) string {
	switch a {
	case Create:
		return out.Green(text)
	case Delete, Refuse:
		return out.Red(text)
	case Update, Adopt:
		return out.Yellow(text)
	}
	return text
}

// showAction prints the changes with one action, with their fields and notes. Without full it prints at most
// 20, and the number of the others.
func showAction(out *term.Output, p Plan, action Action, full bool) {
	shown, hidden := 0, 0
	for _, c := range p.Changes {
		if c.Action != action {
			continue
		}
		if !full && shown == folded {
			hidden++
			continue
		}
		shown++
		fmt.Fprintln(out, paintAction(out, action, signs[action]+" "+string(action)+" "+c.What()))
		for _, f := range c.Fields {
			fmt.Fprintln(out, "    "+fieldLine(out, f))
		}
		if c.Note != "" {
			fmt.Fprintln(out, "    "+term.Plain(c.Note))
		}
	}
	if hidden > 0 {
		fmt.Fprintf(out, "%s\n", out.Dim(fmt.Sprintf("  ... and %s to %s: --full shows them", countText(hidden, "more", "more"), action)))
	}
}

// fieldLine formats the change of a field as a coloured line, as an addition, a removal or a
// change.
func fieldLine(out *term.Output, f Field) string {
	name, from, to := term.Plain(f.Name), term.Plain(f.From), term.Plain(f.To)
	switch {
	case f.From == "":
		return out.Green("+ " + name + "  " + to)
	case f.To == "":
		return out.Red("- " + name + "  " + from)
	}
	return out.Yellow("~ "+name+"  ") + out.Red(from) + " -> " + out.Green(to)
}
