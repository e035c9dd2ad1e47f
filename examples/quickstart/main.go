// Command quickstart shows rate-limited LLM calls: admitted, corrected to what
// they really used, denied with an exact wait, cascaded to a project, rolled back
// on error, and exact among processes.
//
//	go run ./examples/quickstart
//
// It needs nothing but Go: DynamoDB runs in this process (package ddbmem). The
// same code runs on a table of yours:
//
//	go run ./examples/quickstart -table limits                                # your AWS account
//	go run ./examples/quickstart -table limits -endpoint http://127.0.0.1:8000  # any other engine
//
// Read tour.go: each scene is what a service would write.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], newScreen(os.Stdout, os.Getenv), os.Stderr)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// run parses the command line, connects and plays the tour.
func run(ctx context.Context, args []string, s *screen, usage io.Writer) error {
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(usage)
	table := flags.String("table", "", "the DynamoDB table to use, created if it is missing (default: DynamoDB in this process)")
	endpoint := flags.String("endpoint", "", "the `URL` of a DynamoDB engine (default: AWS, when -table is given)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q; -h lists the flags", flags.Arg(0))
	}

	e, err := connect(ctx, *table, *endpoint)
	if err != nil {
		return err
	}
	defer e.close()
	s.title("dynalimit quickstart", e.where)
	return play(ctx, e, s)
}
