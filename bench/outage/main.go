// Command outage takes the store away from callers and says what they saw: how
// long the first of them waited, and the rest, who failed, and whether what they
// used was charged afterwards.
//
//	go run ./outage                                    # every policy and failure, 20 s each
//	go run ./outage -for 5s -policy local -failure hang
//	go run ./outage -store /tmp/dynalimit        # go build -o /tmp/dynalimit ../cmd/dynalimit
//	go run ./outage -json
//
// The store is ddbmem in a process of its own, behind a real HTTP client on
// loopback: dynalimit local, or without -store this program once more. A hang is
// that process stopped. Its exit status is 1 when a goal is missed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/bench/internal/program"
)

func main() { program.MainOr(serverVariable, serve, "outage", run) }

// errMissed says that a goal was missed.
var errMissed = errors.New("a goal was missed")

// settings are the command line.
type settings struct {
	Callers int           `json:"callers"`
	Buckets int           `json:"buckets"`
	For     time.Duration `json:"for_ns"`
	Every   time.Duration `json:"every_ns"`

	policy, failure, store string
	json                   bool
}

var policies = []string{string(dynalimit.Allow), string(dynalimit.Local), string(dynalimit.Block)}

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	err := program.Parse("outage", args, stderr, func(f *flag.FlagSet) {
		f.IntVar(&s.Callers, "callers", 256, "callers")
		f.IntVar(&s.Buckets, "buckets", 4, "buckets they share")
		f.DurationVar(&s.For, "for", 20*time.Second, "how long the store does not answer")
		f.DurationVar(&s.Every, "every", 100*time.Millisecond, "time between two calls of a caller")
		f.StringVar(&s.policy, "policy", "", "allow, local or block; all by default")
		f.StringVar(&s.failure, "failure", "", "hang, reset, 5xx, refused, writes or credentials; all by default")
		f.StringVar(&s.store, "store", "", "a dynalimit binary whose local is the store; by default this program serves ddbmem itself")
		f.BoolVar(&s.json, "json", false, "print JSON")
	})
	switch {
	case err != nil:
		return s, err
	case s.Callers < 1 || s.Buckets < 1 || s.For <= 0 || s.Every <= 0:
		return s, errors.New("-callers and -buckets must be at least 1, -for and -every above 0")
	case s.policy != "" && !slices.Contains(policies, s.policy):
		return s, fmt.Errorf("-policy is %q; give one of %q", s.policy, policies)
	case s.failure != "" && !slices.Contains(failures, s.failure):
		return s, fmt.Errorf("-failure is %q; give one of %q", s.failure, failures)
	}
	return s, nil
}

// sufferAll measures every policy with every failure that is asked for.
func sufferAll(ctx context.Context, s settings, stderr io.Writer) ([]*report, error) {
	var all []*report
	for _, policy := range policies {
		for _, failure := range failures {
			if s.policy != "" && s.policy != policy || s.failure != "" && s.failure != failure {
				continue
			}
			r, err := suffer(ctx, s, dynalimit.UnavailablePolicy(policy), failure)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", policy, failure, err)
			}
			fmt.Fprintf(stderr, "outage: %s, %s: missed %q\n", policy, failure, r.Missed)
			all = append(all, r)
		}
	}
	return all, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	all, err := sufferAll(ctx, s, stderr)
	if err != nil {
		return err
	}
	if s.json {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		err = e.Encode(all)
	} else {
		_, err = io.WriteString(stdout, table(all))
	}
	for _, r := range all {
		if len(r.Missed) > 0 {
			err = errors.Join(err, errMissed)
			break
		}
	}
	return err
}
