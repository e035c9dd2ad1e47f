// Command report runs the benchmarks, contend, scale and keeper, and prints one table
// beside what must hold. docs/performance.md says how long it takes.
//
//	cd bench && go run ./report
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/bench/internal/program"
)

func main() { program.Main("report", run) }

// reporter runs the programs and gathers the rows.
type reporter struct {
	dir    string // of the built programs
	stderr io.Writer
	limit  time.Duration
	rows   []row
	broken []string
}

func (r *reporter) add(rows ...row) { r.rows = append(r.rows, rows...) }

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var strict *bool
	var limit *time.Duration
	err := program.Parse("report", args, stderr, func(f *flag.FlagSet) {
		strict = f.Bool("strict", false, "fail when something that must hold does not")
		limit = f.Duration("limit", 6*time.Minute, "the most that one program may take")
	})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "dynalimit-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // built programs, nothing is lost
	r := &reporter{dir: dir, stderr: stderr, limit: *limit}
	if err := r.build(ctx); err != nil {
		return err
	}
	began := time.Now()
	for _, measure := range []func(context.Context) error{
		r.benchmarks, r.memory, r.oneProcess, r.eightProcesses, r.exhausted, r.scale, r.fleets, r.keepers,
	} {
		if err := measure(ctx); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r.broken = append(r.broken, err.Error())
		}
	}
	fmt.Fprintf(stdout, "%s, %d processors, load %s at the end, %.0f s\n\n",
		runtime.Version(), runtime.NumCPU(), loadAverage(), time.Since(began).Seconds())
	failed, err := printTable(stdout, r.rows)
	if err != nil {
		return err
	}
	for _, text := range r.broken {
		fmt.Fprintln(stdout, "\nnot measured:", text)
	}
	if *strict && failed+len(r.broken) > 0 {
		return fmt.Errorf("%d bounds do not hold, %d measurements failed", failed, len(r.broken))
	}
	return nil
}

// build makes the programs first, so that no compiler runs beside them.
func (r *reporter) build(ctx context.Context) error {
	for _, args := range [][]string{
		{"build", "-o", filepath.Join(r.dir, "contend"), "github.com/dynalimit/dynalimit/bench/contend"},
		{"build", "-o", filepath.Join(r.dir, "scale"), "github.com/dynalimit/dynalimit/bench/scale"},
		{"build", "-o", filepath.Join(r.dir, "keeper"), "github.com/dynalimit/dynalimit/bench/keeper"},
		{"test", "-c", "-o", filepath.Join(r.dir, "bench.test"), "github.com/dynalimit/dynalimit/bench"},
	} {
		if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// output runs a program and returns what it wrote, also when that failed.
func (r *reporter) output(ctx context.Context, name string, args ...string) ([]byte, error) {
	line := name + " " + strings.Join(args, " ")
	fmt.Fprintln(r.stderr, "report:", line)
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(r.dir, name), args...).Output()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s did not end within %v", line, r.limit)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		const most = 2000
		return out, fmt.Errorf("%s: %w\n%s\n%.*s", line, err, out, most, exit.Stderr)
	}
	return out, err
}

// loadAverage is how busy the machine is, where Linux tells.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}
