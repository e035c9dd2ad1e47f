// Command release packs binaries of the command line for publication: archives with the
// licences of everything inside, a bill of materials of each binary, and checksums. Equal
// binaries give equal files, whoever packs them and when. scripts/release.sh runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// identity is what is released; scripts/release.sh puts it into the environment.
type identity struct {
	Version string    // such as v1.2.3
	Commit  string    // the whole hash
	Time    time.Time // of the commit, in UTC
}

func identityOf(getenv func(string) string) (identity, error) {
	seconds, err := strconv.ParseInt(getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return identity{}, fmt.Errorf("SOURCE_DATE_EPOCH is no time in seconds: %w; scripts/release.sh sets it", err)
	}
	id := identity{Version: getenv("VERSION"), Commit: getenv("COMMIT"), Time: time.Unix(seconds, 0).UTC()}
	if !strings.HasPrefix(id.Version, "v") || id.Commit == "" || strings.ContainsAny(id.Version, "/\\ ") {
		return identity{}, fmt.Errorf("VERSION %q or COMMIT %q is no version and no hash; scripts/release.sh sets them", id.Version, id.Commit)
	}
	return id, nil
}

func run(ctx context.Context, args []string, getenv func(string) string) error {
	if len(args) == 0 {
		return errors.New("say pack, notices, sum or verify; scripts/release.sh does")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	out := flags.String("out", ".", "the `folder` of the release")
	binary := flags.String("binary", "", "the `file` to pack")
	platforms := flags.String("platforms", "", "the platforms that must be there, such as \"linux/amd64 linux/arm64\"")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if args[0] == "notices" { // which say nothing of the release
		return writeNotices(ctx, *binary, *out)
	}
	id, err := identityOf(getenv)
	if err != nil {
		return err
	}
	switch args[0] {
	case "pack":
		return pack(ctx, id, *binary, *out)
	case "sum":
		return writeSums(id, *out)
	case "verify":
		return verify(id, strings.Fields(*platforms), *out)
	}
	return fmt.Errorf("there is no %q: say pack, notices, sum or verify", args[0])
}
