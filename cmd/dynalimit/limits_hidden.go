package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// mostHidingSources is the maximal number of sources that are checked for hiding a new limit.
const mostHidingSources = 1000

// warnOfHidden returns one warning if the own lists of more specific sources hide limits that a change adds to
// the source at. The warning counts these sources and names three. It is nil if none do, for a source of an
// entity, and if reading fails.
func warnOfHidden(ctx context.Context, repo *dynalimit.Repository, at admin.Scope, before, after admin.LimitConfig) []string {
	names := slices.DeleteFunc(namesOf(after), func(name string) bool { return slices.Contains(namesOf(before), name) })
	if len(names) == 0 || at.Entity != "" {
		return nil
	}
	all := readConfigs(ctx, repo, admin.New(repo).Limits.Scopes(ctx))
	first, more := firstSources(all, mostHidingSources)
	hiding, err := moreSpecificSources(ctx, repo, at, first, func(c admin.ScopedConfig) bool {
		has := namesOf(c.Config)
		return len(has) > 0 && !c.Config.Extends && slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(has, name) })
	})
	if err != nil || len(hiding) == 0 {
		return nil
	}
	of := fmt.Sprintf("%d sources have", len(hiding))
	switch {
	case *more:
		of = fmt.Sprintf("of the first %d sources %d have", mostHidingSources, len(hiding))
	case len(hiding) == 1:
		of = "1 source has"
	}
	return []string{fmt.Sprintf("%s a list that does not extend, and hides %s: %s", of, strings.Join(names, ", "), firstScopes(hiding, 3))}
}

// firstSources returns a sequence of the first most configurations; an error counts as one. After its iteration
// *more is true if it left some out.
func firstSources(sources iter.Seq2[admin.ScopedConfig, error], most int) (first iter.Seq2[admin.ScopedConfig, error], more *bool) {
	more = new(bool)
	return func(yield func(admin.ScopedConfig, error) bool) {
		n := 0
		for c, err := range sources {
			if n++; n > most {
				*more = true
				return
			}
			if !yield(c, err) {
				return
			}
		}
	}, more
}

// namesOf returns the names of a source's own limits.
func namesOf(c admin.LimitConfig) (names []string) {
	for _, l := range c.Limits {
		names = append(names, l.Name)
	}
	return names
}
