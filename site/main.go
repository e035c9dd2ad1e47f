// Command site writes the documentation as static HTML: the Markdown of the repository,
// the packages with their examples, the programs of examples/, and the help of the
// command line. Every link between the pages is checked; nothing is fetched, neither
// while it builds nor by who reads it. Run it with `make site`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("site", flag.ContinueOnError)
	root := flags.String("root", "..", "the `folder` of the repository")
	out := flags.String("out", "", "the `folder` to write; what an earlier run left there is replaced")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" {
		return errors.New("say where to write with -out; 'make site' does")
	}
	dir, err := os.MkdirTemp("", "site")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a left-over binary in the temporary folder harms nobody
	command, err := buildCommand(ctx, *root, dir)
	if err != nil {
		return err
	}
	s, err := makeSite(*root, runHelp(ctx, command))
	if err != nil {
		return err
	}
	if err := s.write(*out); err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "site: %d pages, %d links among them, %d to elsewhere (%s): %s\n",
		len(s.pages), s.links.internal, len(s.links.external), externalLinks, filepath.Join(*out, "index.html"))
	return nil
}

// buildCommand builds the command line, whose help is a part of the site.
func buildCommand(ctx context.Context, root, dir string) (string, error) {
	command := filepath.Join(dir, "dynalimit")
	build := exec.CommandContext(ctx, "go", "build", "-o", command, "./cmd/dynalimit")
	build.Dir, build.Stderr = root, os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build the command line: %w", err)
	}
	return command, nil
}
