// Command scale simulates thousands of processes on one bucket in virtual time:
// the limiter's own code on ddbmem, behind a latency and a partition that
// throttles, as DynamoDB's do, beyond 1,000 write and 3,000 read units a second.
//
//	go run ./scale                       # 1,000 processes offering 0.3 calls a second each to 200/s
//	go run ./scale -processes 10000
//	go run ./scale -call wait -patience 1s
//	go run ./scale -start full -partition 0 -processes 200 -each 20 -rate 4800 -burst 4800
//	go run ./scale -processes 50 -each 100 -rate 10000 -burst 600000 -start part -prefetch 1s
//	go run ./scale -scenario A           # by name, with goals: A, A-1s, A-250ms, A2, B, C, D, F
//	go run ./scale -scenario F-real      # in real time: B-real, F-real
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"testing" //nolint:depguard // virtual time needs a *testing.T; nothing of this ships
	"testing/synctest"
	"time"

	"github.com/dynalimit/dynalimit/bench/internal/program"
)

// main does without program.Main: an interrupt has to end a simulation, which looks at
// no context.
func main() {
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// settings are the command line.
type settings struct {
	Processes int           `json:"processes"`
	Each      float64       `json:"calls_per_second_each"`
	Rate      int64         `json:"rate"`
	Burst     int64         `json:"burst"`
	Call      string        `json:"call"`
	Patience  time.Duration `json:"patience_ns"`
	WarmUp    time.Duration `json:"warm_up_ns"`
	For       time.Duration `json:"for_ns"`
	Latency   time.Duration `json:"latency_ns"`
	Spread    float64       `json:"latency_spread"`
	Partition float64       `json:"partition_units_per_second"`
	Reads     float64       `json:"partition_read_units_per_second"`
	Holds     float64       `json:"partition_holds_seconds"`
	Timeout   time.Duration `json:"timeout_ns"`
	Prefetch  time.Duration `json:"prefetch_ns"`
	Start     string        `json:"start"`
	Real      bool          `json:"real_time"`

	scenario string
	fleet    string // names what runs, in a scenario
	goals    []goal
	json     bool
}

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	err := program.Parse("scale", args, stderr, func(f *flag.FlagSet) {
		f.IntVar(&s.Processes, "processes", 1000, "processes, each with a limiter of its own")
		f.Float64Var(&s.Each, "each", 0.3, "calls a second that each offers, at random instants")
		f.Int64Var(&s.Rate, "rate", 200, "tokens a second of the one bucket; a call takes one")
		f.Int64Var(&s.Burst, "burst", 200, "tokens it holds")
		f.StringVar(&s.Call, "call", "acquire", "acquire: once; retry: again after RetryAfter; wait")
		f.DurationVar(&s.Patience, "patience", time.Second, "when retry and wait give up")
		f.DurationVar(&s.WarmUp, "warm-up", 15*time.Second, "virtual time before what is measured")
		f.DurationVar(&s.For, "for", 60*time.Second, "virtual time measured")
		f.DurationVar(&s.Latency, "latency", 5*time.Millisecond, "round trip to the store, on average")
		f.Float64Var(&s.Spread, "spread", 0.2, "the share that a trip takes more or less, each way, at random")
		f.Float64Var(&s.Partition, "partition", 1000, "write units a second of the bucket's partition; 0: no bound")
		f.Float64Var(&s.Reads, "reads", 3000, "its read units a second; 0: no bound")
		f.Float64Var(&s.Holds, "holds", 1, "seconds of unused throughput that the partition lends: DynamoDB's may lend 300")
		f.DurationVar(&s.Timeout, "timeout", 0, "Options.Timeout; 0: its default")
		f.DurationVar(&s.Prefetch, "prefetch", 0, "Options.Prefetch; 0: none")
		f.StringVar(&s.Start, "start", "empty", "the bucket at the start: empty, full, or part: three fifths full")
		f.BoolVar(&s.Real, "real", false, "in real time; it takes as long as it says, and the machine must keep up")
		f.StringVar(&s.scenario, "scenario", "", names()+"; decides all but -for, -warm-up and -holds")
		f.BoolVar(&s.json, "json", false, "print JSON")
	})
	if err != nil {
		return s, err
	}
	return s, s.check()
}

func (s settings) check() error {
	switch {
	case s.Processes < 1 || s.Rate < 1 || s.Burst < 1:
		return errors.New("-processes, -rate and -burst must be at least 1")
	case s.Each <= 0 || s.For <= 0:
		return errors.New("-each and -for must be above 0")
	case min(s.Patience, s.WarmUp, s.Latency, s.Timeout, s.Prefetch) < 0 || min(s.Partition, s.Reads, s.Holds) < 0:
		return errors.New("-patience, -warm-up, -latency, -timeout, -prefetch, -partition, -reads and -holds must not be below 0")
	case s.Spread < 0 || s.Spread > 1:
		return errors.New("-spread must be 0 to 1")
	case !slices.Contains([]string{"empty", "full", "part"}, s.Start):
		return fmt.Errorf("-start is %q; give empty, full or part", s.Start)
	case s.scenario != "" && scenarios[s.scenario] == nil:
		return fmt.Errorf("-scenario is %q; give %s", s.scenario, names())
	case s.Call != "acquire" && s.Call != "retry" && s.Call != "wait":
		return fmt.Errorf("-call is %q; give acquire, retry or wait", s.Call)
	}
	return nil
}

// run never returns after a simulation in virtual time: it ends inside a test.
func run(args []string, stdout, stderr io.Writer) error {
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	all := s.runs()
	if all[0].Real {
		return each(all, stdout, func(s settings) (*report, error) { return simulate(context.Background(), s) })
	}
	testing.Init()
	if err := flag.CommandLine.Parse(nil); err != nil { // the defaults of testing's flags
		return err
	}
	// Only a test can open a bubble of virtual time, and testing.Main would exit
	// with words of its own.
	bubble := testing.InternalTest{Name: "scale", F: func(t *testing.T) {
		err := each(all, stdout, func(s settings) (*report, error) { return inVirtualTime(t, s) })
		if err != nil {
			fmt.Fprintln(stderr, "scale:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}}
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{bubble}, nil, nil)
	return errors.New("the simulation did not start")
}

// each runs one after another and prints a report each.
func each(all []settings, stdout io.Writer, simulate func(settings) (*report, error)) error {
	for i, s := range all {
		began := time.Now()
		r, err := simulate(s)
		if err != nil {
			return err
		}
		r.Took = time.Since(began).Seconds()
		if i > 0 && !s.json {
			fmt.Fprintln(stdout)
		}
		if err := r.print(stdout); err != nil {
			return err
		}
	}
	return nil
}

func inVirtualTime(t *testing.T, s settings) (r *report, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { r, err = simulate(t.Context(), s) })
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
