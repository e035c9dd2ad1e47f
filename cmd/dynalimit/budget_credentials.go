package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

type credentialsCmd struct {
	Show   credentialsShowCmd   `cmd:"" help:"Show the state of a client's credentials."`
	Create credentialsCreateCmd `cmd:"" help:"Give an organisation or an app a client id and a secret."`
	Rotate credentialsRotateCmd `cmd:"" help:"Give an organisation or an app another secret."`
	Revoke credentialsRevokeCmd `cmd:"" help:"End the credentials of an organisation or an app, and the tokens they got."`
}

// account names a client.
type account struct {
	Org string `arg:"" help:"The organisation's id."`
	App string `arg:"" optional:"" help:"An app's id. Default: the organisation itself."`
}

// asArguments returns the organisation's id and, if set, the app's as arguments of another command, without
// control characters.
func (c account) asArguments() string {
	if c.App == "" {
		return term.Plain(c.Org)
	}
	return term.Plain(c.Org + " " + c.App)
}

// describe names the client in a sentence: "the app A" or "the organisation O".
func (c account) describe() string {
	if c.App == "" {
		return "the organisation " + term.Plain(c.Org)
	}
	return "the app " + term.Plain(c.App)
}

// explainMissing adds to an error about missing credentials the command that creates them, and returns other
// errors, and nil, as they are.
func (c account) explainMissing(err error) error {
	if errors.Is(err, credentials.ErrNotFound) {
		return fmt.Errorf("%w; give it some with 'dynalimit budget credentials create %s'", err, c.asArguments())
	}
	return err
}

// onCredentials calls run with a keeper and the store of credentials in the control table, under the author of
// the changes, and closes the keeper. Commands that hash nothing pass nil keys; it then generates keys that are
// stored nowhere.
func (b *budgetCmd) onCredentials(
	ctx context.Context, out *term.Output, keys *credentials.KeySet, run func(*budget.Keeper, *credentials.Store) error,
) error {
	if keys == nil {
		var err error
		if keys, err = credentials.NewKeySet(nil, now(ctx)); err != nil {
			return err
		}
	}
	return b.onTables(ctx, out, func(db *dynamodb.Client, who string, k *budget.Keeper) error {
		store, err := credentials.New(db, b.Control, &credentials.Options{Keys: keys, Now: clockOf(ctx), Principal: who})
		if err != nil {
			return err
		}
		return run(k, store)
	})
}

// credentialsJSON is credentials as JSON.
type credentialsJSON struct {
	ClientID   string    `json:"client_id"`
	Org        string    `json:"org_id"`
	App        string    `json:"app_id,omitempty"`
	Version    int64     `json:"version,omitempty"`
	Secret     string    `json:"client_secret,omitempty"`
	File       string    `json:"file,omitempty"`
	Created    time.Time `json:"created_at,omitzero"`
	Issued     time.Time `json:"issued_at,omitzero"`
	GraceUntil time.Time `json:"grace_until,omitzero"`
	Dropped    bool      `json:"oldest_dropped,omitempty"`
	Revoked    time.Time `json:"revoked_at,omitzero"`
}

// asJSON returns a result for --json with the ids of client, organisation and app, for the caller to complete
// with state.
func (c account) asJSON() credentialsJSON {
	return credentialsJSON{ClientID: credentials.ClientID(c.Org, c.App), Org: c.Org, App: c.App}
}

// momentText formats a time in UTC as RFC 3339, or returns "" for the zero time.
func momentText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

type credentialsShowCmd struct{ account }

// Run prints the client id, whether the credentials are good or revoked, and the times of a client's
// credentials, without a secret. It fails if the client has no credentials.
func (c credentialsShowCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return b.onCredentials(ctx, out, nil, func(_ *budget.Keeper, store *credentials.Store) error {
		status, err := store.Status(ctx, c.Org, c.App)
		if err != nil {
			return c.explainMissing(err)
		}
		j := c.asJSON()
		j.Version, j.Created, j.Issued = status.Version, status.Created.UTC(), status.Issued.UTC()
		j.GraceUntil, j.Revoked = status.GraceUntil.UTC(), status.RevokedAt.UTC()
		return out.Show(j, func() {
			state := "good"
			if !j.Revoked.IsZero() {
				state = "revoked since " + momentText(j.Revoked)
			}
			fmt.Fprintln(out, out.Bold(j.ClientID))
			printFields(out, "credentials", state, "since", momentText(j.Created), "secret since", momentText(j.Issued),
				"one before until", momentText(j.GraceUntil))
		})
	})
}

type credentialsCreateCmd struct {
	account
	handover
	keysetFlag
}

// Run issues the first secret of an existing organisation or app, and writes it to the file of --out or prints
// it. If the client has credentials already, it fails with exitConflict.
func (c credentialsCreateCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return c.issueSecret(ctx, b, out, c.handover, c.keysetFlag, func(k *budget.Keeper, store *credentials.Store, j *credentialsJSON) (credentials.Issued, error) {
		if err := checkExists(ctx, k, c.Org, c.App); err != nil {
			return credentials.Issued{}, err
		}
		issued, err := store.Create(ctx, c.Org, c.App)
		if err == nil && !issued.Created {
			err = &failure{exitConflict, fmt.Errorf("%s has credentials already; give it another secret with 'dynalimit budget credentials rotate %s'", c.describe(), c.asArguments())}
		}
		return issued, err
	})
}

// graceFlag is a time in whole hours.
type graceFlag int

// UnmarshalText parses a period of whole hours up to 7 days, such as 24h or 7d, and stores the hours. 0 means
// no grace. Other texts are an error.
func (g *graceFlag) UnmarshalText(text []byte) error {
	if string(text) == "0" {
		*g = 0
		return nil
	}
	d, err := notation.ParsePeriod(string(text))
	if err != nil || d%time.Hour != 0 || d > credentials.MaxGraceHours*time.Hour {
		return fmt.Errorf("%q is not 0 to 168 whole hours: write it like 24h or 7d, or 0 for none", text)
	}
	*g = graceFlag(d / time.Hour)
	return nil
}

type credentialsRotateCmd struct {
	account
	Grace graceFlag `help:"How long the current secret still works, in whole hours up to 168. 0: it stops at once, and its tokens cannot be renewed. Default: 24h." default:"24h" placeholder:"TIME"`
	handover
	keysetFlag
}

// Run issues another secret, and writes it to the file of --out or prints it. The current one stays valid until
// the end of --grace, and an older one ends at once. It fails without credentials.
func (c credentialsRotateCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return c.issueSecret(ctx, b, out, c.handover, c.keysetFlag, func(_ *budget.Keeper, store *credentials.Store, j *credentialsJSON) (credentials.Issued, error) {
		rotation, err := store.Rotate(ctx, c.Org, c.App, int(c.Grace))
		j.GraceUntil, j.Dropped = rotation.GraceUntil.UTC(), rotation.OldestDropped
		return rotation.Issued, c.explainMissing(err)
	})
}

// issueSecret calls do to issue a secret, fetches it, and writes it to the file of --out or prints it. It opens
// the file before the call, so that no secret is lost, and removes the file if it stays empty. do may set
// further fields of the printed result.
func (c account) issueSecret(
	ctx context.Context, b *budgetCmd, out *term.Output, to handover, with keysetFlag,
	do func(*budget.Keeper, *credentials.Store, *credentialsJSON) (credentials.Issued, error),
) error {
	keys, err := with.loadKeys(ctx, b.globals)
	if err != nil {
		return err
	}
	receive, err := to.prepareReceiver(false)
	if err != nil {
		return err
	}
	defer receive.removeEmpty()
	return b.onCredentials(ctx, out, keys, func(k *budget.Keeper, store *credentials.Store) error {
		j := c.asJSON()
		issued, err := do(k, store, &j)
		if err != nil {
			return c.explainUndecided(err)
		}
		handed, err := c.fetchSecret(ctx, store, issued.Token, receive)
		if err != nil {
			return err
		}
		j.Version, j.Secret = issued.Version, receive.shownSecret(handed)
		if j.Secret == "" {
			j.File = receive.Out
		}
		return out.Show(j, func() { c.printSecret(out, j, receive.describeTarget(handed)) })
	})
}

// explainUndecided adds to an error of an unavailable store, after which the secret may or may not exist, the
// command that checks it. It returns other errors as they are.
func (c account) explainUndecided(err error) error {
	if errors.Is(err, credentials.ErrUnavailable) {
		return fmt.Errorf("%w; check with 'dynalimit budget credentials show %s': if a secret was made, nobody has it, and 'rotate' makes another", err, c.asArguments())
	}
	return err
}

// fetchSecret retrieves the issued secret by its one-time token, even after ctx ends, and returns it. It also
// writes a JSON object with client_id and client_secret to the receiver. An error says how to replace the lost
// secret.
func (c account) fetchSecret(ctx context.Context, store *credentials.Store, token credentials.Secret, to *receiver) (credentials.Secret, error) {
	got, err := store.Retrieve(context.WithoutCancel(ctx), c.Org, c.App, token)
	if err == nil {
		var body []byte
		if body, err = json.Marshal(map[string]string{"client_id": got.ClientID, "client_secret": got.Secret.Reveal()}); err == nil {
			err = to.writeSecret(string(body) + "\n")
		}
	}
	if err != nil {
		return credentials.Secret{}, fmt.Errorf("the secret was made, and not handed over: %w; make another with 'dynalimit budget credentials rotate %s --grace 0'", err, c.asArguments())
	}
	return got.Secret, nil
}

// printSecret prints for people that a secret was made, the client id, and until when the one before works.
// secret is the secret or the description of its file. It warns if the oldest secret ended because of it.
func (c account) printSecret(out *term.Output, j credentialsJSON, secret string) {
	fmt.Fprintf(out, "Made a secret for %s. Nobody can read it again.\n", out.Bold(c.describe()))
	printFields(out, "client id", j.ClientID, "secret", secret, "one before until", momentText(j.GraceUntil))
	if j.Dropped {
		fmt.Fprintln(out, out.Yellow("The secret before the last one works no longer: at most two do."))
	}
}

type credentialsRevokeCmd struct {
	account
	asks
}

// Run ends all credentials and tokens of the client, after a confirmation; other processes notice within 30 s.
// If they are revoked already it prints since when, and changes nothing. It fails without credentials.
func (c credentialsRevokeCmd) Run(ctx context.Context, b *budgetCmd, out *term.Output) error {
	return b.onCredentials(ctx, out, nil, func(_ *budget.Keeper, store *credentials.Store) error {
		before, err := store.Status(ctx, c.Org, c.App)
		if err != nil {
			return c.explainMissing(err)
		}
		j := c.asJSON()
		if !before.RevokedAt.IsZero() {
			j.Revoked = before.RevokedAt.UTC()
			return out.Show(j, func() {
				fmt.Fprintf(out, "Nothing to change: %s has none since %s.\n", c.describe(), momentText(j.Revoked))
			})
		}
		if err := c.confirm(ctx, out, "Its calls fail within 30 s. End all credentials and tokens of "+c.describe()+"?", cmp.Or(c.App, c.Org)); err != nil {
			return err
		}
		if err := store.Revoke(ctx, c.Org, c.App); err != nil {
			return err
		}
		j.Revoked = now(ctx).Truncate(time.Second).UTC()
		return out.Show(j, func() {
			fmt.Fprintf(out, "Ended all credentials and tokens of %s; other processes follow within 30 s.\n", c.describe())
		})
	})
}
