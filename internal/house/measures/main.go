// Command measures counts the parts of the limiter that run for one call of each kind, and the functions that
// reach into the unexported names of one type. It compares the counts with figures.txt. These figures may
// only fall; with -write it lowers them. docs/testing.md says how to use it.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

const (
	module  = "github.com/dynalimit/dynalimit"
	folder  = "internal/house/measures" // of this command, from the module's root
	command = "go run ./" + folder
)

func main() {
	write := flag.Bool("write", false, "lower the figures of figures.txt to the counts")
	keep := flag.String("keep", "", "leave the coverage of each call in this `folder`, as CALL.txt, and its functions with their calls, as CALL.functions.txt")
	flag.Parse()
	if err := run(*write, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "measures:", err)
		os.Exit(1)
	}
}

func run(write bool, keep string) error {
	root, packages, err := limiterPackages()
	if err != nil {
		return err
	}
	counts, err := walkCalls(root, packages, keep)
	if err != nil {
		return err
	}
	for _, path := range packages {
		dir := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
		p, err := parseFolder(filepath.Join(root, dir))
		if err != nil {
			return err
		}
		counts = append(counts, p.counts(dir)...)
	}
	path := filepath.Join(root, folder, "figures.txt")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	figures, err := parseFigures(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if write {
		lowered := figures.lower(counts)
		if err := os.WriteFile(path, []byte(lowered.text()), 0o644); err != nil { //nolint:gosec // a file of the repository
			return err
		}
		figures = lowered
	}
	printCounts(counts, figures)
	if problems := figures.compare(counts); len(problems) > 0 {
		return errors.New(strings.Join(problems, "\nmeasures: "))
	}
	return nil
}

// limiterPackages returns the module's folder and the import paths of the root package and of the
// packages of this module that it imports.
func limiterPackages() (root string, packages []string, err error) {
	out, err := output(exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module))
	if err != nil {
		return "", nil, err
	}
	root = strings.TrimSpace(out)
	list := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
	list.Dir = root
	out, err = output(list)
	for line := range strings.FieldsSeq(out) {
		if line == module || strings.HasPrefix(line, module+"/") {
			packages = append(packages, line)
		}
	}
	return root, packages, err
}

// output runs a command. The error includes the command's standard error.
func output(c *exec.Cmd) (string, error) {
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(c.Args[:2], " "), err, out, stderr.String())
	}
	return string(out), nil
}

// printCounts prints each count beside its figure.
func printCounts(counts []count, figures figures) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "count\tfigure\t\n")
	for _, c := range counts {
		figure := fmt.Sprintf("≤ %d", c.free)
		if n, ok := figures[c.name]; ok {
			figure = fmt.Sprint(n)
		} else if c.n <= c.free {
			continue
		}
		fmt.Fprintf(w, "%d\t%s\t  %s", c.n, figure, c.name)
		if c.detail != "" {
			fmt.Fprintf(w, ": %s", c.detail)
		}
		fmt.Fprintln(w)
	}
	w.Flush() //nolint:errcheck // to a terminal
}
