package main

import (
	"context"
	"errors"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// noteUnknown prints a note on out.Notes about a plan without limits, or a parent without a record, because the
// name may be misspelt. It skips "". If counts is true it also notes a parent without default limits and plan;
// it ignores read errors.
func noteUnknown(ctx context.Context, repo *dynalimit.Repository, out *term.Output, plan, parent string, counts bool) {
	if plan != "" && !hasPlanLimits(ctx, repo, plan) {
		out.Notef("dynalimit: the plan %q has no limits yet: set them with 'dynalimit plan set', or correct the name; 'dynalimit plan list' shows the plans", plan)
	}
	if parent == "" {
		return
	}
	record, err := admin.New(repo).Entities.Get(ctx, parent)
	if errors.Is(err, admin.ErrNotFound) {
		out.Notef("dynalimit: the parent %q has no record: make it with 'dynalimit entity create', or correct the name; 'dynalimit entity list' shows the entities", parent)
	}
	if !counts || record.Plan != "" {
		return
	}
	if config, err := admin.New(repo).Limits.GetConfig(ctx, admin.Scope{Entity: parent}); err == nil && config.Version == 0 {
		out.Notef("dynalimit: the parent %q has neither default limits nor a plan: calls charge it only on resources that it has limits for; set some with 'dynalimit limits set %s'", parent, parent)
	}
}

// hasPlanLimits reports whether the table has limits of a plan, by default or for any resource. It also returns
// true if that cannot be read.
func hasPlanLimits(ctx context.Context, repo *dynalimit.Repository, plan string) bool {
	config, err := admin.New(repo).Limits.GetConfig(ctx, admin.Scope{Plan: plan})
	if err != nil || config.Version != 0 {
		return true
	}
	for name, err := range admin.New(repo).Limits.Plans(ctx) {
		if err != nil || name == plan {
			return true
		}
	}
	return false
}
