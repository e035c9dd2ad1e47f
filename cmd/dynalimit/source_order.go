package main

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// moreSpecificSources returns the scopes of sources that satisfy match and that some call uses before the
// source than. It calls match for each source. If than is a plan's, it reads the plans of their entities; the
// first error ends it.
func moreSpecificSources(
	ctx context.Context, repo *dynalimit.Repository, than admin.Scope, sources iter.Seq2[admin.ScopedConfig, error], match func(admin.ScopedConfig) bool,
) (found []admin.Scope, err error) {
	var matching []admin.Scope
	var ids []string
	for c, err := range sources {
		if err != nil {
			return nil, err
		}
		if !match(c) {
			continue
		}
		if matching = append(matching, c.Scope); c.Scope.Entity != "" {
			ids = append(ids, c.Scope.Entity)
		}
	}
	plans := map[string]string{}
	if than.Plan != "" && len(ids) > 0 {
		entities, err := admin.New(repo).Entities.GetMany(ctx, ids)
		if err != nil {
			return nil, err
		}
		for _, e := range entities {
			plans[e.ID] = e.Plan
		}
	}
	for _, s := range matching {
		if isMoreSpecific(s, than, plans[s.Entity]) {
			found = append(found, s)
		}
	}
	return found, nil
}

// isMoreSpecific reports whether some call uses the source s before the source than, so that s can hide than.
// plan is the plan of the entity of s, or "". Equal sources and other resources are false.
func isMoreSpecific(s, than admin.Scope, plan string) bool {
	switch {
	case s == than || than.Resource != "" && s.Resource != "" && s.Resource != than.Resource:
		return false
	case than.Entity != "":
		return s.Entity == than.Entity
	case than.Plan != "":
		return s.Entity != "" && plan == than.Plan || s.Plan == than.Plan && s.Resource != ""
	case than.Resource != "":
		return s.Entity+s.Plan != ""
	}
	return true
}

// batch is the number of sources read at once.
const batch = 100

// readConfigs returns a sequence of the configurations of scopes, in their order. It reads them in batches of
// 100 during the iteration. It ends with the first error.
func readConfigs(ctx context.Context, repo *dynalimit.Repository, scopes iter.Seq2[admin.Scope, error]) iter.Seq2[admin.ScopedConfig, error] {
	return func(yield func(admin.ScopedConfig, error) bool) {
		for some, err := range inBatches(scopes, batch) {
			var configs []admin.ScopedConfig
			if err == nil {
				configs, err = admin.New(repo).Limits.GetConfigs(ctx, some)
			}
			if err != nil {
				yield(admin.ScopedConfig{}, err)
				return
			}
			for _, c := range configs {
				if !yield(c, nil) {
					return
				}
			}
		}
	}
}

// inBatches returns a sequence of slices with n elements of all each, in order; the last may be shorter. An
// error ends the sequence; the elements of an unfinished slice are lost.
func inBatches[T any](all iter.Seq2[T, error], n int) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		var some []T
		for one, err := range all {
			if err != nil {
				yield(nil, err)
				return
			}
			if some = append(some, one); len(some) < n {
				continue
			}
			if !yield(some, nil) {
				return
			}
			some = nil
		}
		if len(some) > 0 {
			yield(some, nil)
		}
	}
}

// firstScopes returns a text that lists the first most scopes, separated by commas, and the number of others.
func firstScopes(all []admin.Scope, most int) string {
	var names []string
	for i, at := range all {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(all)-most))
			break
		}
		names = append(names, at.String())
	}
	return term.Plain(strings.Join(names, ", "))
}
