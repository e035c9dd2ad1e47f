// Command measures counts the parts of the limiter that run for one call of each kind, and the functions that
// reach into the unexported names of one type. It compares the counts with figures.txt. These figures may
// only fall; with -write it lowers them. docs/testing.md says how to use it.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/dynalimit/dynalimit/internal/house/ratchet"
)

const (
	module  = "github.com/dynalimit/dynalimit"
	folder  = "internal/house/measures" // of this command, from the module's root
	command = "go run ./" + folder
)

// main checks the measures against figures.txt, or lowers the figures with -write. It exits with
// 1 after an error.
func main() {
	write := flag.Bool("write", false, "lower the figures of figures.txt to the counts")
	keep := flag.String("keep", "", "leave the coverage of each call in this `folder`, as CALL.txt, and its functions with their calls, as CALL.functions.txt")
	flag.Parse()
	if err := checkMeasures(*write, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "measures:", err)
		os.Exit(1)
	}
}

// checkMeasures counts the measures of the limiter's packages, prints them, and fails for each that does not
// fit its figure in figures.txt. With write it lowers the figures first. Unless keep is "", it leaves the
// coverage of each call in that folder.
func checkMeasures(write bool, keep string) error {
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
		counts = append(counts, p.reachCounts(dir)...)
	}
	file := ratchet.File{Path: filepath.Join(root, folder, "figures.txt"), Command: command, Note: note}
	return file.Check(os.Stdout, counts, write)
}

// note is the comment of figures.txt.
const note = `# The most of each count, which may only fall: docs/testing.md says what is counted.
# After a change that lowers counts: ` + command + ` -write
# A type that moves or gets another name takes its line with it.
`

// limiterPackages returns the module's folder and the import paths of the root package and of the
// packages of this module that it imports.
func limiterPackages() (root string, packages []string, err error) {
	out, err := runCommand(exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module))
	if err != nil {
		return "", nil, err
	}
	root = strings.TrimSpace(out)
	list := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
	list.Dir = root
	out, err = runCommand(list)
	for line := range strings.FieldsSeq(out) {
		if line == module || strings.HasPrefix(line, module+"/") {
			packages = append(packages, line)
		}
	}
	return root, packages, err
}

// runCommand runs a command and returns its standard output. The error includes its standard error.
func runCommand(c *exec.Cmd) (string, error) {
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(c.Args[:2], " "), err, out, stderr.String())
	}
	return string(out), nil
}
