package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/budget/credentials"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

type keysCmd struct {
	List   keysListCmd   `cmd:"" help:"List the keys there are."`
	Create keysCreateCmd `cmd:"" help:"Make a key."`
	Revoke keysRevokeCmd `cmd:"" help:"End a key."`
}

// keyJSON is a provisioning key, for programs.
type keyJSON struct {
	Name    string     `json:"name"`
	Created *time.Time `json:"created_at,omitempty"`
	By      string     `json:"created_by,omitempty"`
	Key     string     `json:"key,omitempty"`
	File    string     `json:"file,omitempty"`
	DryRun  bool       `json:"dry_run,omitempty"`
}

func keyToJSON(k credentials.ProvisioningKey) keyJSON {
	return keyJSON{Name: k.Name, Created: moment(k.Created), By: k.CreatedBy}
}

type keysListCmd struct{}

// Help is shown by --help.
func (keysListCmd) Help() string {
	return `Examples:
  dynalimit budget keys list
  dynalimit budget keys list --json`
}

// Run lists them.
func (keysListCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return b.onCredentials(ctx, out, nil, func(_ *budget.Keeper, store *credentials.Store) error {
		keys, err := store.ListKeys(ctx)
		if err != nil {
			return err
		}
		all, rows := []keyJSON{}, [][]string{}
		for _, k := range keys {
			j := keyToJSON(k)
			all, rows = append(all, j), append(rows, []string{j.Name, momentText(j.Created), orDash(j.By)})
		}
		return out.Show(all, func() {
			if len(all) == 0 {
				fmt.Fprintln(out, "No keys yet: make one with 'dynalimit budget keys create NAME'.")
				return
			}
			out.Table([]string{"NAME", "SINCE", "BY"}, rows)
		})
	})
}

type keysCreateCmd struct {
	Name string `arg:"" help:"What to call it: who or what uses it."`
	handover
	keysetFlag
	changes
}

// Help is shown by --help.
func (keysCreateCmd) Help() string {
	return `Who has it may configure organisations and apps over the REST API, as X-API-Key, and
make and rotate their credentials. It is handed out here, once: into a file with --out,
or onto the screen with --show. It is hashed under the newest pepper of the keeper's keys.

Examples:
  dynalimit budget keys create deploy --keyset keys.json --out deploy.key
  dynalimit budget keys create deploy --keyset keys.json --show --json`
}

// Run makes one.
func (c keysCreateCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	b.dryRun = c.DryRun
	keys, err := c.keys(ctx, b.globals)
	if err != nil {
		return err
	}
	receive, err := c.prepare(c.DryRun)
	if err != nil {
		return err
	}
	defer receive.drop()
	return b.onCredentials(ctx, out, keys, func(_ *budget.Keeper, store *credentials.Store) error {
		key, err := store.CreateKey(ctx, c.Name)
		if c.DryRun && checked(err) {
			return out.Show(keyJSON{Name: c.Name, DryRun: true}, func() {
				fmt.Fprintf(out, "Would make the key %s.\nDry run: nothing was changed.\n", c.Name)
			})
		}
		if err != nil {
			return err
		}
		if err := receive.keep(key.Secret.Reveal() + "\n"); err != nil {
			return fmt.Errorf("%w; end the key with 'dynalimit budget keys revoke %s', and make another", err, key.Name)
		}
		j := keyToJSON(key.ProvisioningKey)
		if j.Key = receive.shown(key.Secret); j.Key == "" {
			j.File = receive.Out
		}
		return out.Show(j, func() {
			fmt.Fprintf(out, "Made the key %s. Nobody can read it again.\n", out.Bold(j.Name))
			fields(out, "key", receive.line(key.Secret))
		})
	})
}

type keysRevokeCmd struct {
	Name string `arg:"" help:"The key's name."`
	destroys
}

// Help is shown by --help.
func (keysRevokeCmd) Help() string {
	return `Other processes follow within 30 s. What was done with the key stays. It asks before,
or wants --yes.

Examples:
  dynalimit budget keys revoke deploy
  dynalimit budget keys revoke deploy --dry-run
  dynalimit budget keys revoke deploy --yes --json`
}

// Run ends it.
func (c keysRevokeCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	b.dryRun = c.DryRun
	return b.onCredentials(ctx, out, nil, func(_ *budget.Keeper, store *credentials.Store) error {
		key, err := c.find(ctx, store)
		if err != nil {
			return err
		}
		if !c.DryRun {
			if err := c.confirm(ctx, out, "Who has it is refused within 30 s. End the key "+key.Name+"?", key.Name); err != nil {
				return err
			}
		}
		err = store.RevokeKey(ctx, key.Name)
		j := keyToJSON(key)
		if j.DryRun = c.DryRun && checked(err); err != nil && !j.DryRun {
			return err
		}
		return out.Show(j, func() {
			if j.DryRun {
				fmt.Fprintf(out, "Would end the key %s.\nDry run: nothing was changed.\n", j.Name)
				return
			}
			fmt.Fprintf(out, "Ended the key %s; other processes follow within 30 s.\n", j.Name)
		})
	})
}

// find looks the key up, before anybody is asked about it.
func (c keysRevokeCmd) find(ctx context.Context, store *credentials.Store) (credentials.ProvisioningKey, error) {
	all, err := store.ListKeys(ctx)
	if err != nil {
		return credentials.ProvisioningKey{}, err
	}
	for _, key := range all {
		if key.Name == c.Name {
			return key, nil
		}
	}
	return credentials.ProvisioningKey{}, fmt.Errorf("there is no key %q: list those there are with 'dynalimit budget keys list'", c.Name)
}
