// Command mutants puts one dangerous change after the other into a copy of this
// repository, and runs the tests that must notice: a survivor is a hole in
// the tests. Run it with `make mutants`; docs/testing.md describes it.
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
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// main runs the command until it ends or is interrupted. It exits with 1 after an error, also if
// a mutant survived.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := mutate(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// options are the command's flags.
type options struct {
	only     string
	parallel int
	list     bool
	gremlins string
}

// mutate reads the flags and then tries the mutants of the lists, prints them, or runs gremlins. It works in a
// temporary folder, which it removes. It returns an error if a mutant survives.
func mutate(ctx context.Context) error {
	var o options
	flag.StringVar(&o.only, "run", "", "try only the mutants whose name matches this `pattern`")
	flag.IntVar(&o.parallel, "parallel", 2, "try so many at once")
	flag.BoolVar(&o.list, "list", false, "print the mutants, check that the source has their texts, and try none")
	flag.StringVar(&o.gremlins, "gremlins", "", "run this gremlins `binary` on the pure packages instead")
	flag.Parse()
	root, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return fmt.Errorf("find the repository: %w", err)
	}
	top := strings.TrimSpace(string(root))
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a left-over copy in the temporary folder is harmless
	if o.gremlins != "" {
		return checkPurePackages(ctx, o.gremlins, top, dir)
	}
	return tryLists(ctx, o, top, dir)
}

// tryLists tries the mutants of the lists with names that match the flag -run, or prints them with -list. It
// returns an error if one survives or is broken.
func tryLists(ctx context.Context, o options, top, dir string) error {
	all, err := readLists(filepath.Join(top, "internal", "mutants", "lists"))
	if err != nil {
		return err
	}
	pattern, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	var list []mutant
	for _, m := range all {
		if pattern.MatchString(m.name) {
			list = append(list, m)
		}
	}
	if o.list {
		return printMutants(list, top)
	}
	if len(list) == 0 {
		return errors.New("no mutant has such a name")
	}
	return tryAll(ctx, o, list, top, dir)
}

// printMutants prints mutants, and returns an error if the source no longer has the old text of one.
func printMutants(list []mutant, top string) error {
	moved := 0
	for _, m := range list {
		err := m.checkFit(top)
		why := m.breaks
		if err != nil {
			why = "BROKEN: " + err.Error()
			moved++
		}
		fmt.Printf("%-30s %-32s %s\n", m.name, m.file, why)
	}
	fmt.Printf("%d mutants\n", len(list))
	if moved > 0 {
		return fmt.Errorf("%d mutants cannot be tried", moved)
	}
	return nil
}

// tryAll tries mutants in parallel and prints the results. Mutants within functions share one tree, behind
// switches; each worker tries the others in a tree of its own. It returns an error if a mutant survives or is
// broken, or if the tests fail without mutants.
func tryAll(ctx context.Context, o options, list []mutant, top, dir string) error {
	began := time.Now()
	trees := make([]string, min(o.parallel, len(list)))
	for i := range trees {
		trees[i] = filepath.Join(dir, fmt.Sprint("tree", i))
		if err := copyTree(top, trees[i]); err != nil {
			return err
		}
	}
	fmt.Printf("%d mutants: building the tests with all that change functions alone ...\n", len(list))
	s, err := installSwitches(ctx, top, dir, list)
	if err != nil {
		return err
	}
	fmt.Printf("... built, %v; the tests without any mutant ...\n", time.Since(began).Round(time.Second))
	s.leaveOutDisturbed(ctx, list)
	alone := slices.DeleteFunc(slices.Clone(list), func(m mutant) bool { return s.in[m.name] || s.broken[m.name] != "" })
	if err := checkUnchanged(ctx, trees[0], dir, testsByPackage(alone)); err != nil {
		return err
	}
	fmt.Printf("... pass, %v; %d mutants are tried in a tree of their own\n", time.Since(began).Round(time.Second), len(alone))
	r := report{verdicts: make([]verdict, len(list)), list: list}
	next := make(chan int)
	var group sync.WaitGroup
	for _, tree := range trees {
		group.Go(func() {
			for i := range next {
				r.tryAndPrint(i, func() verdict {
					m := &list[i]
					if v, known := s.trySwitched(ctx, m); known {
						return v
					}
					return m.applyIn(tree, func() verdict { return tryInTree(ctx, tree, m) })
				})
			}
		})
	}
	for i := range list {
		if ctx.Err() == nil {
			next <- i
		}
	}
	close(next)
	group.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return r.printSummary(time.Since(began))
}

// report is the result of the mutants.
type report struct {
	mu       sync.Mutex
	done     int
	list     []mutant
	verdicts []verdict
}

// tryAndPrint calls try for the i-th mutant, keeps its verdict with the duration, and prints them.
func (r *report) tryAndPrint(i int, try func() verdict) {
	began := time.Now()
	v := try()
	v.took = time.Since(began)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	r.verdicts[i] = v
	fmt.Printf("%3d/%d %-11s %5.1fs  %-36s %s\n", r.done, len(r.list), v.state, v.took.Seconds(), r.list[i].name, v.why)
}

// printSummary prints the counts and the mutants that survived or are broken. It returns an error if there are
// any.
func (r *report) printSummary(took time.Duration) error {
	count := map[state]int{}
	for i, v := range r.verdicts {
		count[v.state]++
		if v.state == survived || v.state == broken {
			fmt.Printf("%s %s (%s): %s\n", v.state, r.list[i].name, r.list[i].file, v.why)
		}
	}
	fmt.Printf("%d mutants: %d caught, %d of them not by the tests named, %d survived, %d broken; %v\n",
		len(r.list), count[caught]+count[late], count[late], count[survived], count[broken], took.Round(time.Second))
	if bad := count[survived] + count[broken]; bad > 0 {
		return fmt.Errorf("%d mutants were not caught", bad)
	}
	return nil
}
