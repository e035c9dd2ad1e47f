package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// state is the state of a mutant.
type state int

const (
	caught state = iota
	// late: the tests named for it missed it, the rest of their package did not.
	late
	survived
	// broken: it cannot be tried as it is written.
	broken
)

// String returns the state as printed: "caught", "caught late", "SURVIVED" or "BROKEN".
func (s state) String() string {
	return [...]string{"caught", "caught late", "SURVIVED", "BROKEN"}[s]
}

// verdict is a state and its reason: a test's name, or an error.
type verdict struct {
	state state
	why   string
	took  time.Duration
}

const (
	narrowTimeout  = 2 * time.Minute
	packageTimeout = 6 * time.Minute
)

// tryInTree runs the tests that a mutant names, in a tree with the mutant. If they pass, it runs all tests of
// their packages: a mutant that only these notice has the verdict late. If all pass, it survived.
func tryInTree(ctx context.Context, tree string, m *mutant) verdict {
	for _, s := range m.tests {
		if v, known := runTests(ctx, tree, s.pkg, s.run, narrowTimeout); known {
			return v
		}
	}
	for _, s := range m.tests {
		if v, known := runTests(ctx, tree, s.pkg, ".", packageTimeout); known {
			if v.state == caught {
				v.state = late
			}
			return v
		}
	}
	return verdict{state: survived, why: m.breaks}
}

// failedTest finds the names of failed tests.
var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// runTests runs the tests of a package that match pattern, and returns the verdict of a failure. known is false
// if they pass.
func runTests(ctx context.Context, tree, pkg, pattern string, timeout time.Duration) (v verdict, known bool) {
	out, err := newCommand(ctx, tree, "go", "test", "-trimpath", "-vet=off", "-ldflags=-s -w", "-count=1", "-failfast", "-timeout="+timeout.String(), "-run="+pattern, pkg).CombinedOutput()
	return interpretRun(ctx, out, err)
}

// newCommand returns a command in dir, not started, with the environment of a trial.
func newCommand(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, environment()
	return cmd
}

// interpretRun returns the verdict of a run of tests, with the reason: a failed test, a hang or a panic. A
// build error or the end of ctx gives the verdict broken. known is false if the tests passed.
func interpretRun(ctx context.Context, out []byte, err error) (v verdict, known bool) {
	switch {
	case ctx.Err() != nil:
		return verdict{state: broken, why: ctx.Err().Error()}, true
	case err == nil:
		return verdict{}, false
	case bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
		return verdict{state: broken, why: "it does not compile: " + firstError(out)}, true
	}
	why := "the test binary ended"
	if name := failedTest.FindSubmatch(out); name != nil {
		why = string(name[1])
	} else if bytes.Contains(out, []byte("panic: test timed out")) {
		why = "the tests hang"
	} else if bytes.Contains(out, []byte("panic:")) {
		why = "a panic"
	}
	return verdict{state: caught, why: why}, true
}

// firstError returns the first line of a compiler's output that is an error; "" without one.
func firstError(out []byte) string {
	for _, line := range strings.Split(string(out), "\n") {
		if line != "" && !strings.HasPrefix(line, "#") {
			return line
		}
	}
	return ""
}

// environment returns a copy of the process's environment, with DYNALIMIT_HISTORIES=60 unless that variable is
// set.
func environment() []string {
	env := os.Environ()
	if os.Getenv("DYNALIMIT_HISTORIES") == "" {
		env = append(env, "DYNALIMIT_HISTORIES=60")
	}
	return env
}

// checkUnchanged returns an error unless tests match each pattern and pass without any mutant. Otherwise their
// failure with a mutant would prove nothing. It builds one test binary in dir.
func checkUnchanged(ctx context.Context, tree, dir string, all map[string][]string) error {
	for pkg, patterns := range all {
		binary := filepath.Join(dir, "unchanged.test")
		if out, err := newCommand(ctx, tree, "go", "test", "-c", "-trimpath", "-vet=off", "-ldflags=-s -w", "-o", binary, pkg).CombinedOutput(); err != nil {
			return fmt.Errorf("build the tests of %s: %w\n%s", pkg, err, out)
		}
		unchanged := func(args ...string) ([]byte, error) {
			return newCommand(ctx, filepath.Join(tree, filepath.FromSlash(pkg)), binary, args...).CombinedOutput()
		}
		for _, pattern := range patterns {
			out, err := unchanged("-test.list=" + pattern)
			if err != nil {
				return fmt.Errorf("list the tests of %s that match '%s': %w\n%s", pkg, pattern, err, out)
			}
			if !bytes.Contains(out, []byte("Test")) {
				return fmt.Errorf("no test of %s matches '%s'", pkg, pattern)
			}
		}
		out, err := unchanged("-test.run=("+strings.Join(patterns, ")|(")+")", "-test.timeout="+packageTimeout.String())
		if err != nil {
			return fmt.Errorf("%s does not pass without any mutant: %w\n%s", pkg, err, out)
		}
	}
	return nil
}
