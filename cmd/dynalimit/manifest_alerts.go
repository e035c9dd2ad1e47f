package main

import (
	"context"
	"slices"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator/alert"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/manifest"
	"github.com/dynalimit/dynalimit/internal/shared"
)

// warnOfAlerts adds a warning to the plan of a manifest with alerts if no Deliverer sends them. It adds none if the role
// must not read that.
func warnOfAlerts(ctx context.Context, repo *dynalimit.Repository, m *manifest.Manifest, p *manifest.Plan) {
	for _, config := range m.Configs {
		if slices.ContainsFunc(config.Limits, func(l dynalimit.Limit) bool { return l.AlertAt != 0 }) {
			table := shared.Of(repo).Table
			if holder, err := alert.Delivering(ctx, table.Client, table.Name, now(ctx)); err == nil && holder == "" {
				p.Warnings = append(p.Warnings, "limits have alerts, and nobody sends them: run 'dynalimit tail --alert-webhook FILE'")
			}
			return
		}
	}
}
