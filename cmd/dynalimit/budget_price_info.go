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
	return show(ctx, b, out, func(k *budget.Keeper) (modelInfoJSON, error) {
		info, err := k.Prices().Info(ctx, c.Model)
		changed := info
		for _, field := range []struct{ to, from *string }{{&changed.Tier, c.Tier}, {&changed.Family, c.Family}, {&changed.Description, c.Description}} {
			if field.from != nil {
				*field.to = *field.from
			}
		}
		if err == nil && changed != info {
			err = k.Prices().PutInfo(ctx, c.Model, changed)
		}
		return modelInfoJSON{c.Model, changed}, err
	}, func(j modelInfoJSON) {
		fmt.Fprintf(out, "%s: %s\n", c.Model, cmp.Or(infoText(j.ModelInfo), "nothing is said of it"))
	})
}
