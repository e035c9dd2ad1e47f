// Command contend sets processes against each other on one bucket, or a few, and
// says whether they kept to the limit, how fast they were and what it cost.
//
//	go run ./contend                                  # 8 processes × 64 goroutines, ddbmem behind 5 ms
//	go run ./contend -processes 1 -goroutines 256
//	go run ./contend -rate 500 -burst 1000 -start empty -call wait
//	go run ./contend -endpoint http://127.0.0.1:8000 -json -plot contend.svg
//
// The processes are real ones: contend runs itself again. With -processes 0 it
// runs -limiters limiters in its own process, on ddbmem without HTTP.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/dynalimit/dynalimit/bench/internal/program"
)

func main() { program.MainOr(workerVariable, work, "contend", run) }

// settings are the command line.
type settings struct {
	Processes  int           `json:"processes"`
	Limiters   int           `json:"limiters"`
	Goroutines int           `json:"goroutines"`
	Buckets    int           `json:"buckets"`
	For        time.Duration `json:"for_ns"`
	Latency    time.Duration `json:"latency_ns"`
	Endpoint   string        `json:"endpoint,omitempty"`
	Start      string        `json:"start"`
	Call       string        `json:"call"`
	Burst      int64         `json:"burst"`
	Rate       int64         `json:"rate"`
	Amount     int64         `json:"amount"`
	Load       float64       `json:"load"`

	json bool
	plot string
}

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	err := program.Parse("contend", args, stderr, func(f *flag.FlagSet) {
		f.IntVar(&s.Processes, "processes", 8, "processes; 0 runs in this one, without HTTP")
		f.IntVar(&s.Limiters, "limiters", 1, "limiters in this process, with -processes 0")
		f.IntVar(&s.Goroutines, "goroutines", 64, "goroutines of each process or limiter")
		f.IntVar(&s.Buckets, "buckets", 1, "buckets they share")
		f.DurationVar(&s.For, "for", 5*time.Second, "how long")
		f.DurationVar(&s.Latency, "latency", 5*time.Millisecond, "what ddbmem waits before it executes a request")
		f.StringVar(&s.Endpoint, "endpoint", "", "a DynamoDB `URL` in place of ddbmem")
		f.StringVar(&s.Start, "start", "full", "the buckets at the start: full or empty")
		f.StringVar(&s.Call, "call", "acquire", "acquire, which comes back after RetryAfter when denied, or wait")
		f.Int64Var(&s.Burst, "burst", 1_000_000_000, "tokens a bucket holds")
		f.Int64Var(&s.Rate, "rate", 1000, "tokens it regains a second")
		f.Int64Var(&s.Amount, "amount", 1, "tokens a call takes")
		f.Float64Var(&s.Load, "load", 0, "calls a second of all together; 0: each goroutine calls again at once")
		f.BoolVar(&s.json, "json", false, "print JSON")
		f.StringVar(&s.plot, "plot", "", "draw admitted and allowed over time into a `file.svg` or .png")
	})
	if err != nil {
		return s, err
	}
	return s, s.check()
}

func (s settings) check() error {
	switch {
	case s.Processes < 0 || s.Limiters < 1 || s.Goroutines < 1 || s.Buckets < 1:
		return errors.New("-processes must be at least 0, -limiters, -goroutines and -buckets at least 1")
	case s.Processes > 0 && s.Limiters > 1:
		return errors.New("-limiters needs -processes 0: a process has one limiter")
	case s.For <= 0 || s.Latency < 0 || s.Load < 0:
		return errors.New("-for must be above 0, -latency and -load not below it")
	case s.Burst < 1 || s.Rate < 1 || s.Amount < 1:
		return errors.New("-burst, -rate and -amount must be at least 1")
	case s.Amount > s.Burst:
		return errors.New("-amount must not exceed -burst: it would never fit")
	case s.Start != "full" && s.Start != "empty":
		return fmt.Errorf("-start is %q; give full or empty", s.Start)
	case s.Call != "acquire" && s.Call != "wait":
		return fmt.Errorf("-call is %q; give acquire or wait", s.Call)
	case s.Processes == 0 && s.Endpoint != "":
		return errors.New("-endpoint needs processes: -processes 0 runs on ddbmem")
	}
	return nil
}

// callers is how many limiters there are in all.
func (s settings) callers() int {
	if s.Processes == 0 {
		return s.Limiters
	}
	return s.Processes
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	st, err := openStore(ctx, s)
	if err != nil {
		return err
	}
	report, samples, err := contend(ctx, s, st, stderr)
	if err := errors.Join(err, st.close(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	if s.plot != "" {
		if err := draw(s.plot, samples); err != nil {
			return err
		}
	}
	if s.json {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(report)
	}
	_, err = io.WriteString(stdout, report.text())
	return err
}
