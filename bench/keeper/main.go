// Command keeper loads a keeper through its REST API, by a schedule: a request is due
// whether or not those before it were answered, and how long it took counts from when it
// was due.
//
//	go run ./keeper -select 2000                    # a process that says which model to use
//	go run ./keeper -submit 500                     # that counts what calls cost
//	go run ./keeper -processes 4 -select 10000 -submit 5000
//	go run ./keeper -scenario selection             # by name, with goals
//	go run ./keeper -virtual -submit 500 -linger 10ms
//	go run ./keeper -virtual -processes 8 -submit 4000 -busy 4ms -shards 16
//	go run ./keeper -scenario month                 # what the source's load costs in a month
//
// The store, ddbmem, is a process, and so is each keeper; they talk HTTP on loopback, and
// this one is the clients. With -processes 0 all is this process. With -virtual it is too,
// in virtual time, where requests take what the store's latency and the waiting for others
// take, and the machine does not matter. Its exit status is 1 when a goal is missed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"testing" //nolint:depguard // virtual time needs a *testing.T; nothing of this ships
	"testing/synctest"
	"time"

	"github.com/dynalimit/dynalimit/bench/internal/program"
	"github.com/dynalimit/dynalimit/budget"
)

func main() { program.MainOr(processVariable, work, "keeper", run) }

// errMissed says that a goal was missed.
var errMissed = errors.New("a goal was missed")

// settings are the command line.
type settings struct {
	Processes int             `json:"processes"`
	Clients   int             `json:"clients"`
	Apps      int             `json:"apps"`
	Select    float64         `json:"selections_per_second"`
	Submit    float64         `json:"submissions_per_second"`
	For       time.Duration   `json:"for_ns"`
	WarmUp    time.Duration   `json:"warm_up_ns"`
	Latency   time.Duration   `json:"latency_ns"`
	Linger    time.Duration   `json:"linger_ns"`
	Metering  budget.Metering `json:"metering"`
	Shards    int             `json:"shards"`
	Busy      time.Duration   `json:"busy_ns"`
	Sweep     time.Duration   `json:"sweep_ns"`
	Seed      uint64          `json:"seed"`
	Virtual   bool            `json:"virtual_time"`

	scenario string
	name     string // of the run, in a scenario
	goals    []goal
	json     bool
}

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	err := program.Parse("keeper", args, stderr, func(f *flag.FlagSet) {
		f.IntVar(&s.Processes, "processes", 1, "processes of the keeper; 0: the one is this process, as are store and clients")
		f.IntVar(&s.Clients, "clients", 64, "clients, each with a connection to one process")
		f.IntVar(&s.Apps, "apps", 1, "apps that they ask for in turn, each with counters of its own")
		f.Float64Var(&s.Select, "select", 0, "model selections a second of all clients together")
		f.Float64Var(&s.Submit, "submit", 0, "submissions a second of all clients together")
		f.DurationVar(&s.For, "for", 10*time.Second, "time measured")
		f.DurationVar(&s.WarmUp, "warm-up", 2*time.Second, "the same load before")
		f.DurationVar(&s.Latency, "latency", 5*time.Millisecond, "what the store takes for a request")
		f.DurationVar(&s.Linger, "linger", serveLinger, "budget.Options.Linger, by default that of dynalimit keeper serve; 0: its own default")
		f.TextVar(&s.Metering, "metering", budget.MeteringStrict, "strict, batch, window or none")
		f.IntVar(&s.Shards, "shards", 8, "counters that an app's day is spread over")
		f.DurationVar(&s.Busy, "busy", 0, "how long a transaction is on its counters, where others meet it and are refused; 0: none are")
		f.DurationVar(&s.Sweep, "sweep", 0, "time between two sweeps of one of the processes; 0: none")
		f.Uint64Var(&s.Seed, "seed", 1, "of the instants at which requests are due")
		f.BoolVar(&s.Virtual, "virtual", false, "in virtual time, in this process")
		f.StringVar(&s.scenario, "scenario", "", names()+"; decides all but -for, -warm-up and -seed")
		f.BoolVar(&s.json, "json", false, "print JSON")
	})
	if err != nil {
		return s, err
	}
	return s, s.check()
}

// longest is how long a run may be: the tokens of its login are good for an hour.
const longest = 50 * time.Minute

func (s settings) check() error {
	switch {
	case s.Processes < 0 || s.Clients < 1 || s.Apps < 1:
		return errors.New("-processes must be at least 0, -clients and -apps at least 1")
	case s.Select < 0 || s.Submit < 0 || s.scenario == "" && s.Select+s.Submit == 0:
		return errors.New("give -select, -submit or both, above 0, or a -scenario")
	case s.For <= 0 || s.WarmUp < 0 || s.For+s.WarmUp > longest:
		return fmt.Errorf("-for must be above 0 and -warm-up not below it, together at most %v", longest)
	case min(s.Latency, s.Linger, s.Busy, s.Sweep) < 0:
		return errors.New("-latency, -linger, -busy and -sweep must not be below 0")
	case s.Shards < 1 || s.Shards > 256:
		return errors.New("-shards must be 1 to 256")
	case s.scenario != "" && scenarios[s.scenario] == nil:
		return fmt.Errorf("-scenario is %q; give %s", s.scenario, names())
	}
	return nil
}

// run never returns after a run in virtual time: it ends inside a test.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	all := s.runs()
	if !all[0].Virtual {
		return each(all, stdout, func(s settings) (*report, error) { return measure(ctx, s) })
	}
	testing.Init()
	if err := flag.CommandLine.Parse(nil); err != nil { // the defaults of testing's flags
		return err
	}
	// Only a test can open a bubble of virtual time, and testing.Main would exit
	// with words of its own.
	bubble := testing.InternalTest{Name: "keeper", F: func(t *testing.T) {
		err := each(all, stdout, func(s settings) (*report, error) { return inVirtualTime(t, s) })
		if err != nil {
			fmt.Fprintln(stderr, "keeper:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}}
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{bubble}, nil, nil)
	return errors.New("the run did not start")
}

// each runs one after another and prints a report each.
func each(all []settings, stdout io.Writer, measure func(settings) (*report, error)) error {
	missed := false
	for i, s := range all {
		r, err := measure(s)
		if err != nil {
			return err
		}
		if i > 0 && !s.json {
			fmt.Fprintln(stdout)
		}
		if err := r.print(stdout); err != nil {
			return err
		}
		missed = missed || len(r.Missed) > 0
	}
	if missed {
		return errMissed
	}
	return nil
}

func inVirtualTime(t *testing.T, s settings) (r *report, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { r, err = measure(t.Context(), s) })
	return r, err
}

func (r *report) print(stdout io.Writer) error {
	if r.json {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	_, err := io.WriteString(stdout, r.text())
	return err
}
