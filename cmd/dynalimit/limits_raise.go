package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// raising is the flags of a temporary raise.
type raising struct {
	Until   *string `help:"Raise the limits in force until then, and change no list: 18:00 or '2026-01-31 18:00' in the zone of this machine, a time of RFC 3339, or 2h for so long." placeholder:"TIME"`
	Replace bool    `help:"With --until, take the place of a raise that is larger or ends later."`
}

// validateRaise returns an error for flags that contradict --until, and for malformed limits and repeated
// names. Without --until it refuses only --replace. texts are raises such as NAME=N; only and dryRun are the
// values of flags.
func (r raising) validateRaise(texts []string, only, dryRun bool) error {
	switch {
	case r.Until == nil && r.Replace:
		return errors.New("--replace is about a raise: give --until too, or leave it out")
	case r.Until == nil:
		return nil
	case *r.Until == "":
		return errors.New("--until is empty: give a time, or leave it out")
	case only:
		return errors.New("--only is not for a raise, which takes nothing away: leave it out")
	case dryRun:
		return errors.New("a raise has no --dry-run: 'check' shows the limits in force, and 'lower' ends a raise")
	}
	named := map[string]bool{}
	for _, text := range texts {
		name, _, err := parseRaise(text)
		if err != nil {
			return err
		}
		if named[name] {
			return fmt.Errorf("%s is given twice: give each limit once", name)
		}
		named[name] = true
	}
	return nil
}

// parseRaise parses a raise NAME=N, and returns the name of the limit and its new capacity in whole tokens. A
// period, dollars or other parts of a limit are an error, because a raise does not change them.
func parseRaise(text string) (name string, capacity int64, err error) {
	name, value, _ := strings.Cut(text, "=")
	if strings.HasPrefix(value, "$") || strings.Contains(value, "/") {
		return "", 0, fmt.Errorf("%s: only token buckets are raised until a time, and keep their period: write %s=N, or add to the window of a quota with 'dynalimit bucket grant'", text, name)
	}
	if strings.Contains(value, ",") {
		return "", 0, fmt.Errorf("%s: a raise is of the capacity, and the rest follows it: write %s=N", text, name)
	}
	if capacity, err = notation.ParseCount(value); err != nil {
		return "", 0, fmt.Errorf("%s: %w", text, err)
	}
	return name, capacity, nil
}

// raiseLimits raises the capacity of each limit in texts, one by one, until --until, and prints the differences
// of the source. A larger or later raise is a conflict without --replace. If one fails, it notes the limits
// raised already.
func (r raising) raiseLimits(ctx context.Context, g *globals, out *term.Output, at admin.Scope, texts []string) error {
	until, err := notation.ParseUntil(*r.Until, now(ctx), time.Local)
	if err != nil {
		return badInput("--until: %w", err)
	}
	return g.changeTable(ctx, out, func(repo *dynalimit.Repository) error {
		limits := admin.New(repo).Limits
		before, err := limits.GetConfig(ctx, at)
		if err != nil {
			return err
		}
		raise := limits.Raise
		if r.Replace {
			raise = limits.ReplaceRaise
		}
		for i, text := range texts {
			name, capacity, err := parseRaise(text)
			if err == nil {
				err = raise(ctx, at, name, capacity, until)
			}
			if err != nil && i > 0 {
				out.Notef("dynalimit: raised already: %s", term.Plain(strings.Join(texts[:i], ", ")))
			}
			if conflict, ok := errors.AsType[*admin.ConflictError[admin.Raise]](err); ok {
				return &failure{exitConflict, fmt.Errorf("%s is raised %s already: --replace takes its place", name, raiseText(conflict.Stored))}
			}
			if err != nil {
				return err
			}
		}
		after, err := limits.GetConfig(ctx, at)
		if err != nil {
			return err
		}
		lines := diffFacts(out, configFacts(before), configFacts(after))
		return out.Show(sourceChange{Scope: at, Before: before, After: after, Changed: len(lines) > 0}, func() { printChange(out, at.String(), lines, false) })
	})
}
