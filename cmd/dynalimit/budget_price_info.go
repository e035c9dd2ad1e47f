package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// modelInfoJSON is what is said of a model.
type modelInfoJSON struct {
	Model string `json:"model_id"`
	budget.ModelInfo
}

// infoText is what is said, in a line.
func infoText(i budget.ModelInfo) string {
	said := []string{i.Tier, i.Family, i.Description}
	return term.Plain(strings.Join(slices.DeleteFunc(said, func(s string) bool { return s == "" }), ", "))
}

type pricesAboutCmd struct {
	Model       string  `arg:"" help:"The model's id."`
	Tier        *string `help:"How you rank it, such as premium; '' for nothing." placeholder:"TIER"`
	Family      *string `help:"What it belongs to, such as claude-3.5." placeholder:"FAMILY"`
	Description *string `help:"A sentence about it." placeholder:"TEXT"`
}

func (c pricesAboutCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return b.with(ctx, out, func(k *budget.Keeper) error {
		info, err := k.Prices().Info(ctx, c.Model)
		if err != nil {
			return err
		}
		changed := info
		for _, field := range []struct{ to, from *string }{{&changed.Tier, c.Tier}, {&changed.Family, c.Family}, {&changed.Description, c.Description}} {
			if field.from != nil {
				*field.to = *field.from
			}
		}
		if changed != info {
			if err := k.Prices().PutInfo(ctx, c.Model, changed); err != nil {
				return err
			}
		}
		j := modelInfoJSON{c.Model, changed}
		return out.Show(j, func() { fmt.Fprintf(out, "%s: %s\n", c.Model, cmp.Or(infoText(changed), "nothing is said of it")) })
	})
}
