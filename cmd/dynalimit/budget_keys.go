package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

type keysCmd struct {
	List   keysListCmd   `cmd:"" help:"List the keys there are."`
	Create keysCreateCmd `cmd:"" help:"Make a key."`
	Revoke keysRevokeCmd `cmd:"" help:"End a key."`
}

// keyJSON is a provisioning key as JSON.
type keyJSON struct {
	credentials.ProvisioningKey
	Key  string `json:"key,omitempty"`
	File string `json:"file,omitempty"`
}

type keysListCmd struct{}

// Run prints the provisioning keys without their secrets: name, organisation or "all", creation time and
// author. Without keys it prints how to create one.
func (keysListCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return b.onCredentials(ctx, out, nil, func(_ *budget.Keeper, store *credentials.Store) error {
		all, err := store.ListKeys(ctx)
		if err != nil {
			return err
		}
		rows := make([][]string, len(all))
		for i, k := range all {
			rows[i] = []string{k.Name, cmp.Or(k.Org, "all"), momentText(k.Created), orDash(k.CreatedBy)}
		}
		return out.Show(all, func() {
			if len(all) == 0 {
				fmt.Fprintln(out, "No keys yet: make one with 'dynalimit budget keys create NAME'.")
				return
			}
			out.Table([]string{"NAME", "ORG", "SINCE", "BY"}, rows)
		})
	})
}

type keysCreateCmd struct {
	Name string `arg:"" help:"The key's name, such as that of its user."`
	Org  string `help:"Id of the one organisation that it configures, which need not be there yet. Default: all." placeholder:"ID"`
	handover
	keysetFlag
}

// Run creates a provisioning key and writes its secret to the file of --out, or prints it. It opens the file
// before it creates the key, and removes the file if it stays empty. If the secret cannot be written, the error
// names the command that revokes the key.
func (c keysCreateCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	keys, err := c.loadKeys(ctx, b.globals)
	if err != nil {
		return err
	}
	receive, err := c.prepareReceiver(false)
	if err != nil {
		return err
	}
	defer receive.removeEmpty()
	return b.onCredentials(ctx, out, keys, func(_ *budget.Keeper, store *credentials.Store) error {
		key, err := c.createKey(ctx, store)
		if err != nil {
			return err
		}
		if err := receive.writeSecret(key.Secret.Reveal() + "\n"); err != nil {
			return fmt.Errorf("%w; end the key with 'dynalimit budget keys revoke %s', and make another", err, key.Name)
		}
		j := keyJSON{ProvisioningKey: key.ProvisioningKey}
		if j.Key = receive.shownSecret(key.Secret); j.Key == "" {
			j.File = receive.Out
		}
		return out.Show(j, func() {
			fmt.Fprintf(out, "Made the key %s%s. Nobody can read it again.\n", out.Bold(j.Name), orgSuffix(j.Org))
			printFields(out, "key", receive.describeTarget(key.Secret))
		})
	})
}

// createKey stores a new key under the name of the argument and returns it with its secret. The key is for one
// organisation if --org names it, else for all. The store's error passes.
func (c keysCreateCmd) createKey(ctx context.Context, store *credentials.Store) (credentials.NewKey, error) {
	if c.Org == "" {
		return store.CreateKey(ctx, c.Name)
	}
	return store.CreateOrgKey(ctx, c.Org, c.Name)
}

// orgSuffix returns " for ORG" for the end of a sentence, or "" for a key of all organisations.
func orgSuffix(org string) string {
	if org == "" {
		return ""
	}
	return " for " + org
}

type keysRevokeCmd struct {
	Name string `arg:"" help:"The key's name."`
	asks
}

// Run ends a provisioning key, after a confirmation; other processes refuse it within 30 s. It fails if no key
// has the name or the user declines.
func (c keysRevokeCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return b.onCredentials(ctx, out, nil, func(_ *budget.Keeper, store *credentials.Store) error {
		key, err := c.findKey(ctx, store)
		if err != nil {
			return err
		}
		if err := c.confirm(ctx, out, "Its holders are refused within 30 s. End the key "+key.Name+"?", key.Name); err != nil {
			return err
		}
		if err := store.RevokeKey(ctx, key.Name); err != nil {
			return err
		}
		return out.Show(keyJSON{ProvisioningKey: key}, func() {
			fmt.Fprintf(out, "Ended the key %s; other processes follow within 30 s.\n", key.Name)
		})
	})
}

// findKey returns the provisioning key named by the argument, without its secret. It reads all keys, and
// returns an error with advice if none has the name.
func (c keysRevokeCmd) findKey(ctx context.Context, store *credentials.Store) (credentials.ProvisioningKey, error) {
	all, err := store.ListKeys(ctx)
	if err != nil {
		return credentials.ProvisioningKey{}, err
	}
	for _, key := range all {
		if key.Name == c.Name {
			return key, nil
		}
	}
	return credentials.ProvisioningKey{}, fmt.Errorf("there is no key %q: list the keys with 'dynalimit budget keys list'", c.Name)
}
