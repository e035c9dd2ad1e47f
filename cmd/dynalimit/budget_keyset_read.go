package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/keeper/credentials"
	"github.com/dynalimit/dynalimit/keeper/secretsmanager"
)

// keysetVariable is the environment variable with the keys of the keeper.
const keysetVariable = "DYNALIMIT_KEYSET"

// keysetFlag names the keys that hash secrets.
type keysetFlag struct {
	Keyset string `help:"File with the keys of the keeper, its peppers among them, or secretsmanager:NAME for a secret of AWS Secrets Manager. Default: the content of DYNALIMIT_KEYSET in the environment." placeholder:"FILE"`
}

// vaultPrefix is the prefix of a secret's name or ARN, in place of a file.
const vaultPrefix = "secretsmanager:"

// vaultTime bounds one read of such a secret.
const vaultTime = 15 * time.Second

// keyLoader returns a loader of the unparsed document of --keyset, and the reload interval: 10 s for a file, a
// minute for an AWS secret. It reads nothing yet. It fails if the secret has no name, or AWS cannot be
// configured.
func (f keysetFlag) keyLoader(ctx context.Context, g *globals) (load credentials.KeyLoader, every time.Duration, err error) {
	name, vault := strings.CutPrefix(f.Keyset, vaultPrefix)
	switch {
	case !vault:
		return credentials.KeysFile(f.Keyset), 10 * time.Second, nil
	case name == "":
		return nil, 0, badInput("--keyset %s names no secret: write it like %skeeper/keys, or with its ARN", vaultPrefix, vaultPrefix)
	}
	cfg, err := g.connectOptions(ctx).Config(ctx)
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

// loadKeys reads and parses the key set from the file or AWS secret of --keyset, or without it from the
// environment variable. Missing, unreadable and malformed keys are an error.
func (f keysetFlag) loadKeys(ctx context.Context, g *globals) (*credentials.KeySet, error) {
	if f.Keyset == "" {
		if os.Getenv(keysetVariable) == "" {
			return nil, badInput("no keys of the keeper: name its file with --keyset, or set %s to its content", keysetVariable)
		}
		keys, err := credentials.KeysFromEnvironment(keysetVariable)
		if err != nil {
			return nil, badInput("%s: %w", keysetVariable, err)
		}
		return keys, nil
	}
	load, _, err := f.keyLoader(ctx, g)
	if err != nil {
		return nil, err
	}
	document, err := load(ctx)
	if err != nil {
		return nil, f.explainUnread(err)
	}
	keys, err := credentials.ParseKeySet(document)
	if err != nil {
		return nil, badInput("%s: %w", term.Plain(f.Keyset), err)
	}
	return keys, nil
}

// explainUnread adds advice to an error of reading the file or AWS secret of --keyset. The error of a file
// becomes bad input, which names the path once.
func (f keysetFlag) explainUnread(err error) error {
	if strings.HasPrefix(f.Keyset, vaultPrefix) {
		return fmt.Errorf("%w; name the secret or give its ARN, and be allowed secretsmanager:GetSecretValue on it", err)
	}
	return badInput("%s cannot be read: %w; name the keeper's file of keys", term.Plain(f.Keyset), withoutPath(err))
}

// warnOfMode logs a warning with the fix if users other than the owner and group have any access to the file of
// --keyset. It does nothing on Windows, for an AWS secret, and without --keyset.
func (f keysetFlag) warnOfMode(ctx context.Context, logger *slog.Logger) {
	if f.Keyset == "" || strings.HasPrefix(f.Keyset, vaultPrefix) {
		return
	}
	if info, err := os.Stat(f.Keyset); err == nil && info.Mode().Perm()&0o007 != 0 && runtime.GOOS != "windows" {
		logger.WarnContext(ctx, "keeper: everybody on this machine may read the keys: make the file readable by the keeper alone", "file", f.Keyset, "mode", info.Mode().Perm().String(), "fix", "chmod o= "+f.Keyset)
	}
}

// loadKeysFile reads and parses the keys of the file at path. It returns bad input for an empty path, an AWS
// secret, and a file that cannot be read or parsed.
func loadKeysFile(ctx context.Context, path string) (*credentials.KeySet, error) {
	switch {
	case path == "":
		return nil, badInput("the file has no name: name the keeper's file of keys")
	case strings.HasPrefix(path, vaultPrefix):
		return nil, badInput("%s is no file: get the secret into one, change that, and put it back with 'aws secretsmanager put-secret-value'", term.Plain(path))
	}
	return keysetFlag{path}.loadKeys(ctx, nil)
}
