// Command report runs the benchmarks and prints one table of results and bars. docs/performance.md says how
// long it takes.
//
//	cd bench && go run ./report
//	go run ./report -suite outage
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// main runs the report until its end or an interrupt. It exits with 1 after an error.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// reporter runs suites.
type reporter struct {
	dir    string // of the built tests
	stderr io.Writer
	limit  time.Duration
}

// run runs the suites that match -suite and prints a table of their measures, and errors of suites. With -write
// it puts the suite beside into a page. It fails only with -strict if a bound or a suite fails, and for bad
// flags or an interrupt.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("report", flag.ContinueOnError)
	flags.SetOutput(stderr)
	strict := flags.Bool("strict", false, "fail when something that must hold does not")
	limit := flags.Duration("limit", 6*time.Minute, "the most that one suite may take")
	which := flags.String("suite", "acquire|memory|contend|spread|scale|keeper", "a `regexp` of the suites to run; there are outage, beside and crowd too")
	page := flags.String("write", "", "put the table and chart of the suite beside into a `page`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	asked, err := regexp.Compile(*which)
	if err != nil || flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: %w", flags.Args(), err)
	}
	dir, err := os.MkdirTemp("", "dynalimit-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // built tests, nothing is lost
	r := &reporter{dir: dir, stderr: stderr, limit: *limit}
	began := time.Now()
	all, broken := map[string]metrics{}, []string(nil)
	for _, s := range suites {
		if !asked.MatchString(s.name) {
			continue
		}
		if err := r.run(ctx, s, all); err != nil {
			broken = append(broken, err.Error())
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	fmt.Fprintf(stdout, "%s, %d processors, load %s at the end, %.0f s\n\n",
		runtime.Version(), runtime.NumCPU(), loadAverage(), time.Since(began).Seconds())
	failed, err := printTable(stdout, rows(all))
	if err != nil {
		return err
	}
	if table := formatBeside(all); table != "" {
		fmt.Fprint(stdout, table)
		if *page != "" {
			if err := writeBeside(*page, table); err != nil {
				return err
			}
		}
	}
	for _, text := range broken {
		fmt.Fprintln(stdout, "\nnot measured:", text)
	}
	if *strict && failed+len(broken) > 0 {
		return fmt.Errorf("%d bounds do not hold, %d suites failed", failed, len(broken))
	}
	return nil
}

// run runs the benchmarks of a suite within r.limit and adds their results to all. It builds the
// test first, so that no compiler runs during the measurement.
func (r *reporter) run(ctx context.Context, s suite, all map[string]metrics) error {
	fmt.Fprintln(r.stderr, "report:", s.folder, strings.Join(s.args, " "))
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	test := filepath.Join(r.dir, strings.ReplaceAll(s.folder, "/", "-")+".test")
	if _, err := os.Stat(test); err != nil {
		if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", test, "github.com/dynalimit/dynalimit/"+s.folder).CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", s.folder, err, out)
		}
	}
	out, err := exec.CommandContext(ctx, test, append([]string{"-test.run=^$"}, s.args...)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", s.folder, strings.Join(s.args, " "), err, out)
	}
	return errors.Join(err, parseBenchmarks(string(out), all)) // earlier results of a failed run are shown
}

// loadAverage returns the machine's load from Linux's /proc, or "unknown".
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(text), " ")
	return load
}
