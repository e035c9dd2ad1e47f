// Package program is what the commands of the benchmarks have in common: how they
// begin and end, read their arguments, and run themselves again as other processes.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"time"
)

// Main runs a command, and exits with status 1 if it fails. An interrupt ends the
// command's context, a second one the program.
func Main(name string, run func(ctx context.Context, args []string, stdout, stderr io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// MainOr is Main, but for a process that was started in a role (see Again): that
// works for the one that started it.
func MainOr(role string, work func(ctx context.Context, in io.Reader, out io.Writer) error, name string, run func(ctx context.Context, args []string, stdout, stderr io.Writer) error) {
	if os.Getenv(role) != "" {
		name, run = name+": "+role, func(ctx context.Context, _ []string, stdout, _ io.Writer) error { return work(ctx, os.Stdin, stdout) }
	}
	Main(name, run)
}

// Parse reads the arguments of a command, which has flags only.
func Parse(name string, args []string, stderr io.Writer, define func(*flag.FlagSet)) error {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(stderr)
	define(f)
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return nil
}

// Child is another process that is told what to do by its input.
type Child struct {
	*exec.Cmd
	In  io.WriteCloser
	Out io.Reader
}

// Again is this program once more; role, set in its environment, tells it what it is.
func Again(ctx context.Context, role string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), role+"=1")
	return cmd, nil
}

// Start starts a process. What it says on its error output is said here.
func Start(cmd *exec.Cmd) (*Child, error) {
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &Child{Cmd: cmd, In: in, Out: out}, nil
}
