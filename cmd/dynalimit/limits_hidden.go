package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// mostHidingLevels bounds the levels that are read to find those that hide a new limit.
const mostHidingLevels = 1000

// warnOfHidden says which more specific levels have a list of their own that hides limits which a
// change brings; nil for none, and where the levels cannot be read.
func warnOfHidden(ctx context.Context, repo *dynalimit.Repository, at admin.Scope, before, after admin.LimitConfig) []string {
	names := slices.DeleteFunc(namesOf(after), func(name string) bool { return slices.Contains(namesOf(before), name) })
	if len(names) == 0 || at.Entity != "" {
		return nil
	}
	scopes, more, err := moreSpecific(ctx, repo, at)
	if err != nil {
		return nil
	}
	configs, err := admin.New(repo).Limits.GetConfigs(ctx, scopes)
	if err != nil {
		return nil
	}
	var hiding []string
	for _, c := range configs {
		has := namesOf(c.Config)
		if len(has) > 0 && !c.Config.Extends && slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(has, name) }) {
			hiding = append(hiding, c.Scope.String())
		}
	}
	const most = 3
	count := len(hiding)
	switch {
	case count == 0:
		return nil
	case count > most:
		hiding = append(hiding[:most], fmt.Sprintf("%d more", count-most))
	}
	of := fmt.Sprintf("%d levels have", count)
	switch {
	case more:
		of = fmt.Sprintf("of the first %d levels %d have", mostHidingLevels, count)
	case count == 1:
		of = "1 level has"
	}
	return []string{fmt.Sprintf("%s a list that does not extend, and hides %s: %s", of, strings.Join(names, ", "), strings.Join(hiding, ", "))}
}

// namesOf are the names of a level's own limits.
func namesOf(c admin.LimitConfig) (names []string) {
	for _, l := range c.Limits {
		names = append(names, l.Name)
	}
	return names
}

// moreSpecific lists the levels that win over a level where it applies, as many as are read. more
// means that there are others.
func moreSpecific(ctx context.Context, repo *dynalimit.Repository, at admin.Scope) (scopes []admin.Scope, more bool, err error) {
	var ids []string
	for of, err := range admin.New(repo).Limits.Scopes(ctx) {
		if err != nil {
			return nil, false, err
		}
		if specificity(of) <= specificity(at) || of.Plan != "" && at.Plan != "" && of.Plan != at.Plan || at.Resource != "" && of.Resource != "" && of.Resource != at.Resource {
			continue
		}
		if len(scopes) == mostHidingLevels {
			more = true
			break
		}
		if scopes = append(scopes, of); of.Entity != "" {
			ids = append(ids, of.Entity)
		}
	}
	if at.Plan == "" {
		return scopes, more, nil
	}
	records, err := admin.New(repo).Entities.GetMany(ctx, ids)
	on := map[string]bool{}
	for _, e := range records {
		on[e.ID] = e.Plan == at.Plan
	}
	return slices.DeleteFunc(scopes, func(of admin.Scope) bool { return of.Entity != "" && !on[of.Entity] }), more, err
}

// specificity orders levels, the most specific last.
func specificity(at admin.Scope) int {
	n := slices.Index([]bool{at.Entity != "", at.Plan != "", true}, true)
	n = 2 * (2 - n)
	if at.Resource != "" {
		n++
	}
	return n
}
