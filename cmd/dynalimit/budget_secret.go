package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/budget/credentials"
	"github.com/dynalimit/dynalimit/budget/secretsmanager"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// keysetVariable is the environment's variable with the keys of the keeper.
const keysetVariable = "DYNALIMIT_KEYSET"

// keysetFlag says under which keys secrets are hashed.
type keysetFlag struct {
	Keyset string `help:"File with the keys of the keeper, its peppers among them, or secretsmanager:NAME for a secret of AWS Secrets Manager. Default: what DYNALIMIT_KEYSET in the environment says." placeholder:"FILE"`
}

// vaultPrefix begins the name or ARN of a secret of AWS Secrets Manager, where that of a
// file may stand.
const vaultPrefix = "secretsmanager:"

// vaultTime bounds one read of such a secret.
const vaultTime = 15 * time.Second

// loader reads the document of --keyset, and says how often a service is to read it again:
// what is read of a file costs nothing.
func (f keysetFlag) loader(ctx context.Context, g *globals) (load credentials.KeyLoader, every time.Duration, err error) {
	name, vault := strings.CutPrefix(f.Keyset, vaultPrefix)
	switch {
	case !vault:
		return credentials.KeysFile(f.Keyset), 10 * time.Second, nil
	case name == "":
		return nil, 0, badInput("--keyset %s names no secret: write it like %skeeper/keys, or with its ARN", vaultPrefix, vaultPrefix)
	}
	cfg, err := g.options(ctx).Config(ctx)
	if err != nil {
		return nil, 0, err
	}
	read := secretsmanager.FromConfig(cfg, name)
	return func(ctx context.Context) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, vaultTime)
		defer cancel()
		return read(ctx)
	}, time.Minute, nil
}

// keys reads them.
func (f keysetFlag) keys(ctx context.Context, g *globals) (*credentials.KeySet, error) {
	if f.Keyset == "" {
		if os.Getenv(keysetVariable) == "" {
			return nil, badInput("no keys of the keeper: name its file with --keyset, or have %s say what is in it", keysetVariable)
		}
		keys, err := credentials.KeysFromEnvironment(keysetVariable)
		if err != nil {
			return nil, badInput("%s: %w", keysetVariable, err)
		}
		return keys, nil
	}
	load, _, err := f.loader(ctx, g)
	if err != nil {
		return nil, err
	}
	document, err := load(ctx)
	if err != nil {
		return nil, f.unread(ctx, err)
	}
	return parsedKeys(f.Keyset, document)
}

// unread says what to do about keys that cannot be read.
func (f keysetFlag) unread(ctx context.Context, err error) error {
	if !strings.HasPrefix(f.Keyset, vaultPrefix) {
		return notKeys(f.Keyset, err)
	}
	err = fmt.Errorf("%w; name the secret or give its ARN, and be allowed secretsmanager:GetSecretValue on it", err)
	if ctx.Err() != nil {
		return err
	}
	return &failure{exitFailed, err}
}

// keysOf are the keys in a file.
func keysOf(ctx context.Context, path string) (*credentials.KeySet, error) {
	if strings.HasPrefix(path, vaultPrefix) {
		return nil, badInput("%s is no file: get the secret into one, change that, and put it back with 'aws secretsmanager put-secret-value'", term.Plain(path))
	}
	document, err := credentials.KeysFile(path)(ctx)
	if err != nil {
		return nil, notKeys(path, err)
	}
	return parsedKeys(path, document)
}

func notKeys(path string, err error) error {
	return badInput("%s cannot be read: %w; name the keeper's file of keys", term.Plain(path), withoutPath(err))
}

func parsedKeys(name string, document []byte) (*credentials.KeySet, error) {
	keys, err := credentials.ParseKeySet(document)
	if err != nil {
		return nil, badInput("%s: %w", term.Plain(name), err)
	}
	return keys, nil
}

// handover says where a secret goes, which nobody can read again: it is printed only to
// those who ask for that.
type handover struct {
	Out  string `help:"Write the secret into this file, which only you may read. It must not be there yet." placeholder:"FILE" xor:"secret" required:""`
	Show bool   `help:"Print the secret, once." xor:"secret" required:""`
}

// receiver is where a secret is going to be.
type receiver struct {
	handover
	file *os.File // nil for none
}

// prepare makes the file, so that no secret is lost because of it; not in a dry run, in
// which there is none.
func (h handover) prepare(dryRun bool) (*receiver, error) {
	r := &receiver{handover: h}
	switch {
	case h.Show:
		return r, nil
	case h.Out == "":
		return nil, badInput("--out is empty: name a file, or print the secret with --show")
	case dryRun:
		if _, err := os.Lstat(h.Out); err == nil {
			return nil, h.refused(os.ErrExist)
		}
		return r, nil
	}
	f, err := os.OpenFile(h.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, h.refused(err)
	}
	r.file = f
	return r, nil
}

// refused is why there is no file.
func (h handover) refused(err error) error {
	if errors.Is(err, os.ErrExist) {
		return badInput("--out: %s is there already: name another file, so that no secret is lost", term.Plain(h.Out))
	}
	return badInput("--out: %s cannot be written: %w; name another file", term.Plain(h.Out), withoutPath(err))
}

// keep writes what is to be kept of a secret; where nothing came of it, it removes the file.
func (r *receiver) keep(text string) error {
	if r.file == nil {
		return nil
	}
	_, err := io.WriteString(r.file, text)
	err = errors.Join(err, r.file.Sync(), r.file.Close())
	if err == nil {
		r.file = nil
		return nil
	}
	_ = os.Remove(r.file.Name())
	r.file = nil
	return fmt.Errorf("the secret could not be written into %s: %w; nobody has it", term.Plain(r.Out), withoutPath(err))
}

// drop removes a file into which nothing was written.
func (r *receiver) drop() {
	if r.file != nil {
		_ = r.file.Close()
		_ = os.Remove(r.file.Name())
		r.file = nil
	}
}

// shown is the secret for a result: empty unless that was asked for.
func (r *receiver) shown(secret credentials.Secret) string {
	if r.Show {
		return secret.Reveal()
	}
	return ""
}

// line says where the secret is.
func (r *receiver) line(secret credentials.Secret) string {
	if r.Show {
		return secret.Reveal()
	}
	return "in " + term.Plain(r.Out) + ", which only you may read"
}

// fields are lines of a name and a value, below each other.
func fields(out *term.Output, pairs ...string) {
	width := 0
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			width = max(width, len(pairs[i]))
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(out, "  %s  %s\n", out.Dim(pairs[i]+strings.Repeat(" ", width-len(pairs[i]))), term.Plain(pairs[i+1]))
		}
	}
}
