// Package program is what the benchmarks have in common: how they report, open virtual
// time, and run themselves again as other processes.
package program

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing" //nolint:depguard // benchmarks report by it, and virtual time needs a *testing.T; nothing of this ships
	"testing/synctest"
	"time"
)

// Values are what a run came to, by unit.
type Values map[string]float64

// Report makes values the result of a benchmark, whose time is fixed and says nothing.
func Report(b *testing.B, values Values) {
	b.Helper()
	b.ReportMetric(0, "ns/op")
	for unit, v := range values {
		b.ReportMetric(v, unit)
	}
}

// Virtual runs f in virtual time, which a test alone can open.
func Virtual(f func(ctx context.Context) error) (err error) {
	ran := false
	test := testing.InternalTest{Name: "virtual", F: func(t *testing.T) {
		if ran { // -test.count is of benchmarks
			return
		}
		ran = true
		synctest.Test(t, func(t *testing.T) { err = f(t.Context()) })
	}}
	if !testing.RunTests(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{test}) {
		return errors.Join(err, errors.New("the run in virtual time failed"))
	}
	return err
}

// Child is another process that is told what to do by its input.
type Child struct {
	*exec.Cmd
	In  io.WriteCloser
	Out io.Reader
}

// Again starts this program once more; role, set in its environment, tells it what it is.
// What it says on its error output is said here.
func Again(ctx context.Context, role string) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), role+"=1")
	cmd.Stderr, cmd.WaitDelay = os.Stderr, time.Second
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
