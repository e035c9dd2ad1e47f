package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// purePackages are the packages for gremlins. The own tests of a whole one reach all
// of it; of the others, the lists cover the unreached parts.
var purePackages = []struct {
	folder string
	whole  bool
}{{"internal/bucket", true}, {"internal/schema", false}}

// outcome is gremlins' report of one change.
type outcome struct {
	Type   string `json:"type"`
	Status string `json:"status"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

// isCaught reports whether a test, a timeout or the compiler catches the change.
func (o outcome) isCaught() bool {
	return o.Status == "KILLED" || o.Status == "TIMED OUT" || o.Status == "NOT VIABLE"
}

// checkPurePackages lets the program gremlins change every operator of the pure packages, in a copy of the
// repository, and prints the results. It returns an error for survivors that lists/equivalent.md does not
// explain, and for explanations that fit no survivor.
func checkPurePackages(ctx context.Context, binary, top, dir string) error {
	tree := filepath.Join(dir, "tree")
	if err := copyTree(top, tree); err != nil {
		return err
	}
	explained, err := readEquivalents(filepath.Join(top, "internal", "mutants", "lists", "equivalent.md"))
	if err != nil {
		return err
	}
	bad := 0
	for _, pkg := range purePackages {
		n, err := mutatePackage(ctx, binary, tree, dir, pkg.folder, pkg.whole, explained)
		if err != nil {
			return err
		}
		bad += n
	}
	for e, used := range explained {
		if !used {
			fmt.Printf("lists/equivalent.md explains what is not there: %s, %s: %s\n", e.file, e.kind, e.text)
			bad++
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d changes are not caught, or not explained", bad)
	}
	return nil
}

// mutatePackage runs gremlins on a package, prints its unexplained survivors and returns their number. It marks
// the used explanations in explained. Unless whole is true, it ignores changes that the package's tests do not
// reach.
func mutatePackage(ctx context.Context, binary, tree, dir, pkg string, whole bool, explained map[equivalent]bool) (bad int, err error) {
	files, err := runGremlins(ctx, binary, tree, dir, pkg)
	if err != nil {
		return 0, err
	}
	killed := 0
	for _, f := range files {
		file := pkg + "/" + filepath.Base(f.Name)
		lines, err := readLines(filepath.Join(tree, filepath.FromSlash(file)))
		if err != nil {
			return 0, err
		}
		for _, o := range f.Mutations {
			e := equivalent{file, o.Type, strings.TrimSpace(lines[o.Line-1])}
			_, known := explained[e]
			switch {
			case o.isCaught():
				killed++
			case o.Status == "NOT COVERED" && !whole:
			case known:
				explained[e] = true
			default:
				bad++
				fmt.Printf("%s: %s:%d:%d %s: %s\n", o.Status, file, o.Line, o.Column, o.Type, e.text)
			}
		}
	}
	fmt.Printf("%s: %d changes caught, %d neither caught nor explained\n", pkg, killed, bad)
	return bad, nil
}

// fileOutcomes is gremlins' report of one file.
type fileOutcomes struct {
	Name      string    `json:"file_name"`
	Mutations []outcome `json:"mutations"`
}

// runGremlins runs the program gremlins on a package in tree and returns its outcomes by file. It
// leaves the report in dir.
func runGremlins(ctx context.Context, binary, tree, dir, pkg string) ([]fileOutcomes, error) {
	report := filepath.Join(dir, "gremlins.json")
	cmd := exec.CommandContext(ctx, binary, "unleash", "./"+pkg, "--workers", "2", "--timeout-coefficient", "10", "-o", report, "-S", "l")
	cmd.Dir, cmd.Env, cmd.Stderr = tree, append(os.Environ(), "GOWORK=off"), os.Stderr
	if out, err := cmd.Output(); err != nil {
		return nil, fmt.Errorf("gremlins on %s: %w\n%s", pkg, err, out)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		return nil, err
	}
	var all struct {
		Files []fileOutcomes `json:"files"`
	}
	err = json.Unmarshal(text, &all)
	return all.Files, err
}

// readLines reads a file and returns its lines.
func readLines(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	return strings.Split(string(text), "\n"), err
}

// equivalent is a change that no test can see, or need not.
type equivalent struct{ file, kind, text string }

// readEquivalents reads the explained changes from the table in lists/equivalent.md: file, kind,
// line and reason. None is marked as used.
func readEquivalents(path string) (map[equivalent]bool, error) {
	rows, err := readLines(path)
	if err != nil {
		return nil, err
	}
	all := map[equivalent]bool{}
	for _, row := range rows {
		if !strings.HasPrefix(row, "| internal/") {
			continue
		}
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if len(cells) < 4 {
			return nil, errors.New("a row is file, kind, line and why: " + row)
		}
		text := strings.ReplaceAll(strings.Trim(cells[2], "`"), `\|`, "|")
		all[equivalent{cells[0], cells[1], text}] = false
	}
	return all, nil
}
