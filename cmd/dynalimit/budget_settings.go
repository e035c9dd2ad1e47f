package main

import (
	"context"
	"fmt"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/keeper/budget"
)

// settingsCmd shows and changes the settings that all keepers of the tables share.
type settingsCmd struct {
	Show settingsShowCmd `cmd:"" help:"Show the settings that all keepers of the tables share."`
	Set  settingsSetCmd  `cmd:"" help:"Change the given ones of the settings that all keepers of the tables share."`
}

// printSettings prints how many days counters are kept and the models by label, with the defaults in place of
// missing settings.
func printSettings(out *term.Output, s budget.Settings) {
	kept := "400 days, unless a keeper's options say otherwise"
	if s.KeepDays > 0 {
		kept = fmt.Sprintf("%d days", s.KeepDays)
	}
	models := joinPairs(s.Models, func(id string) string { return id })
	if models == "" {
		models = "none, but for those of a keeper's options"
	}
	printFields(out, "kept", kept, "models", models)
}

type settingsShowCmd struct{}

// Run prints the settings that all keepers of the tables share: the days that counters are kept, and the models
// of labels.
func (settingsShowCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return showResult(ctx, b, out, func(k *budget.Keeper) (budget.Settings, error) { return k.Setup().Settings(ctx) },
		func(s budget.Settings) { printSettings(out, s) })
}

type settingsSetCmd struct {
	KeepDays int               `help:"How many days counters are kept after their day. Existing counters keep their expiry." placeholder:"DAYS"`
	Model    map[string]string `help:"The model id of a label, where neither an app nor its organisation has one; repeat per label. Those not given stay." placeholder:"LABEL=ID"`
	NoModel  []string          `help:"Labels that are to have no model here." placeholder:"LABEL"`
}

// Validate refuses a command that changes nothing.
func (c settingsSetCmd) Validate() error {
	if c.KeepDays == 0 && len(c.Model)+len(c.NoModel) == 0 {
		return badInput("nothing is to be changed: give --keep-days, --model or --no-model")
	}
	return nil
}

// Run changes the settings of the given flags, which all keepers of the tables share, and prints the result. It
// adds models to the stored ones by label. If another caller changes the settings meanwhile, it reads them
// again and retries.
func (c settingsSetCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return showResult(ctx, b, out, func(k *budget.Keeper) (s budget.Settings, err error) {
		err = retryOnConflict(ctx, func() error {
			if s, err = k.Setup().Settings(ctx); err != nil {
				return err
			}
			if s.Version == 0 {
				s.Version = budget.NoVersion
			}
			if c.KeepDays != 0 {
				s.KeepDays = c.KeepDays
			}
			s.Models = overlayMap(s.Models, c.Model)
			for _, label := range c.NoModel {
				delete(s.Models, label)
			}
			s, err = k.Setup().PutSettings(ctx, s)
			return err
		})
		return s, err
	}, func(s budget.Settings) { printSettings(out, s) })
}
