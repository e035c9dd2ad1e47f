package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

type keysetCmd struct {
	Create keysetCreateCmd `cmd:"" help:"Make a file of keys."`
	Rotate keysetRotateCmd `cmd:"" help:"Put a new signing key and a new pepper into a file of keys."`
}

// keysetJSON is a file of keys as JSON, without the keys.
type keysetJSON struct {
	File    string    `json:"file"`
	Signing string    `json:"signing_key"`
	Pepper  string    `json:"pepper"`
	From    time.Time `json:"from,omitzero"`
	DryRun  bool      `json:"dry_run,omitempty"`
}

type keysetCreateCmd struct {
	Out string `help:"The file, which only you may read. It must not be there yet." placeholder:"FILE" required:""`
	changes
}

// Run writes a new signing key and a new pepper to the new file of --out, readable by its owner only, and
// prints their ids. It fails if the file exists. A dry run checks and prints, and writes nothing.
func (c keysetCreateCmd) Run(ctx context.Context, out *term.Output) error {
	keys, err := credentials.NewKeySet(nil, now(ctx))
	if err != nil {
		return err
	}
	receive, err := handover{Out: c.Out}.prepareReceiver(c.DryRun)
	if err != nil {
		return err
	}
	defer receive.removeEmpty()
	if err := receive.writeSecret(keys.Document().Reveal() + "\n"); err != nil {
		return err
	}
	j := keysetJSON{File: c.Out, Signing: keys.Signer(now(ctx)).ID, Pepper: keys.Pepper(now(ctx)).ID, DryRun: c.DryRun}
	return out.Show(j, func() {
		if c.DryRun {
			fmt.Fprintf(out, "Would make %s.\nDry run: nothing was changed.\n", term.Plain(c.Out))
			return
		}
		fmt.Fprintf(out, "Made %s, which only you may read.\n", out.Bold(term.Plain(c.Out)))
		printFields(out, "signs with", j.Signing, "hashes under", j.Pepper)
	})
}

// writeKeys replaces the file at path by the document of the keys, atomically, readable by its owner only.
// After a failure the file keeps its old keys.
func writeKeys(path string, keys *credentials.KeySet) error {
	err := writeFileAtomically(path, 0o600, func(to io.Writer) error {
		_, err := io.WriteString(to, keys.Document().Reveal()+"\n")
		return err
	})
	if err != nil {
		return fmt.Errorf("%w; it keeps its old keys: make its folder writable, and try again", err)
	}
	return nil
}

type keysetRotateCmd struct {
	File    string `arg:"" help:"The file."`
	Longest string `help:"How long the longest token is good: signing keys that were replaced before that are left out. Default: 30d." default:"30d" placeholder:"TIME"`
	changes
}

// Run adds a signing key and a pepper to the file, in use from credentials.KeyDelay on, so that services can
// load them first. It drops signing keys replaced more than --longest ago, and prints the new ids. A dry run
// writes nothing.
func (c keysetRotateCmd) Run(ctx context.Context, out *term.Output) error {
	longest, err := notation.ParsePeriod(c.Longest)
	if err != nil {
		return badInput("--longest %w", err)
	}
	old, err := loadKeysFile(ctx, c.File)
	if err != nil {
		return err
	}
	at := now(ctx)
	keys, err := old.Rotated(nil, at, longest)
	if err != nil {
		return badInput("%w", err)
	}
	if !c.DryRun {
		if err := writeKeys(c.File, keys); err != nil {
			return err
		}
	}
	from := at.Add(credentials.KeyDelay)
	j := keysetJSON{File: c.File, Signing: keys.Signer(from).ID, Pepper: keys.Pepper(from).ID, From: from.Truncate(time.Second).UTC(), DryRun: c.DryRun}
	return out.Show(j, func() {
		if c.DryRun {
			fmt.Fprintf(out, "Would put new keys into %s.\nDry run: nothing was changed.\n", term.Plain(c.File))
			return
		}
		fmt.Fprintf(out, "Put new keys into %s, in use from %s on.\n", out.Bold(term.Plain(c.File)), momentText(j.From))
		printFields(out, "signs with", j.Signing, "hashes under", j.Pepper)
	})
}
