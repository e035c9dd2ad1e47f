package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/budget/credentials"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

type keysetPruneCmd struct {
	File string `arg:"" help:"The file."`
	destroys
}

// prunedJSON is what became of the peppers of a file, for programs.
type prunedJSON struct {
	File    string       `json:"file"`
	Dropped []string     `json:"dropped"`
	Held    []pepperJSON `json:"held"`
	DryRun  bool         `json:"dry_run,omitempty"`
}

// pepperJSON is a pepper that nobody hashes under any more, and who holds it.
type pepperJSON struct {
	Pepper  string   `json:"pepper"`
	Clients []string `json:"clients"`
	Keys    []string `json:"keys"`
}

func (c keysetPruneCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	b.dryRun = c.DryRun
	keys, err := keysOf(ctx, c.File)
	if err != nil {
		return err
	}
	return b.onCredentials(ctx, out, keys, func(_ *budget.Keeper, store *credentials.Store) error {
		use, err := store.PepperUse(ctx)
		if err != nil {
			return err
		}
		j := pruned(keys.Settled(now(ctx)), use)
		j.File, j.DryRun = c.File, c.DryRun
		if len(j.Dropped) > 0 {
			if err := c.drop(ctx, b, out, keys, use, j.Dropped); err != nil {
				return err
			}
		}
		return out.Show(j, func() { j.print(out) })
	})
}

// pruned tells peppers that are held from those that are not.
func pruned(settled []credentials.Pepper, use map[string]credentials.PepperUse) prunedJSON {
	j := prunedJSON{Dropped: []string{}, Held: []pepperJSON{}}
	for _, p := range settled {
		u, held := use[p.ID]
		if !held {
			j.Dropped = append(j.Dropped, p.ID)
			continue
		}
		j.Held = append(j.Held, pepperJSON{p.ID, append([]string{}, u.Clients...), append([]string{}, u.Keys...)})
	}
	return j
}

// drop takes peppers out of the file, once somebody agreed. It refuses where no secret at
// all is hashed under any of the file: then the table is another keeper's.
func (c keysetPruneCmd) drop(
	ctx context.Context, b *budgetCmd, out *term.Output, keys *credentials.KeySet, use map[string]credentials.PepperUse, dropped []string,
) error {
	if !slices.ContainsFunc(keys.Peppers(), func(p credentials.Pepper) bool { _, held := use[p.ID]; return held }) {
		return badInput("no secret in table %q is hashed under a pepper of %s: name the table of its keeper with --control", b.Control, term.Plain(c.File))
	}
	left, err := keys.WithoutPeppers(now(ctx), dropped...)
	if err != nil || c.DryRun {
		return err
	}
	question := fmt.Sprintf("Secrets of other tables than %q that are hashed under them log in no more. Drop %s from %s?",
		b.Control, notation.Many(len(dropped), "pepper"), term.Plain(c.File))
	if err := c.confirm(ctx, out, question, c.File); err != nil {
		return err
	}
	return writeKeys(c.File, left)
}

func (j prunedJSON) print(out *term.Output) {
	file := term.Plain(j.File)
	switch {
	case len(j.Dropped) == 0:
		fmt.Fprintf(out, "No pepper can be dropped from %s.\n", file)
	case j.DryRun:
		fmt.Fprintf(out, "Would drop from %s: %s.\n", file, strings.Join(j.Dropped, ", "))
	default:
		fmt.Fprintf(out, "Dropped from %s: %s.\n", out.Bold(file), strings.Join(j.Dropped, ", "))
	}
	for _, p := range j.Held {
		holders := slices.Clone(p.Clients)
		for _, key := range p.Keys {
			holders = append(holders, "the key "+key)
		}
		const most = 5
		if more := len(holders) - most; more > 0 {
			holders = append(holders[:most], fmt.Sprintf("%d more", more))
		}
		fmt.Fprintf(out, "%s is held by %s\n", p.Pepper, strings.Join(holders, ", "))
	}
	if j.DryRun {
		fmt.Fprintln(out, "Dry run: nothing was changed.")
	}
}
