package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/smithy-go"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/aggregator/alert"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/manifest"
	"github.com/dynalimit/dynalimit/internal/shared"
)

// warnOfAlerts appends a warning to p.Warnings if the manifest's limits have alerts and no process delivers
// them, or if that cannot be read. Without alerts it reads nothing.
func warnOfAlerts(ctx context.Context, repo *dynalimit.Repository, m *manifest.Manifest, p *manifest.Plan) {
	for _, config := range m.Configs {
		if slices.ContainsFunc(config.Limits, func(l dynalimit.Limit) bool { return l.AlertAt != 0 }) {
			table := shared.Of(repo).Table
			holder, err := alert.Delivering(ctx, table.Client, table.Name, now(ctx))
			if api, ok := errors.AsType[smithy.APIError](err); ok {
				err = fmt.Errorf("%s: %s", api.ErrorCode(), api.ErrorMessage())
			}
			switch {
			case err != nil:
				p.Warnings = append(p.Warnings, fmt.Sprintf("limits have alerts, and it cannot be checked whether anybody sends them: %v", err))
			case holder == "":
				p.Warnings = append(p.Warnings, "limits have alerts, and nobody sends them: run 'dynalimit tail --alert-webhook FILE'")
			}
			return
		}
	}
}
