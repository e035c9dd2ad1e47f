package keeper

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/bench/internal/program"
	"github.com/dynalimit/dynalimit/keeper/budget"
)

// The waits for company that there are without a setting: of dynalimit keeper serve, and of
// budget.Options.
const (
	serveLinger   = 2 * time.Millisecond
	libraryLinger = 40 * time.Millisecond
)

// flags are the load of Keeper/flags; -for, -warm-up and -seed are for the named ones too.
var flags settings

func init() {
	flag.IntVar(&flags.Processes, "processes", 1, "processes of the keeper")
	flag.IntVar(&flags.Clients, "clients", 64, "clients, each with a connection to one process")
	flag.IntVar(&flags.Apps, "apps", 1, "apps that they ask for in turn, each with counters of its own")
	flag.Float64Var(&flags.Select, "select", 0, "model selections a second of all clients together")
	flag.Float64Var(&flags.Submit, "submit", 500, "submissions a second of all clients together")
	flag.DurationVar(&flags.For, "for", 10*time.Second, "time measured; with -warm-up at most 50 minutes: so long tokens are good for")
	flag.DurationVar(&flags.WarmUp, "warm-up", 2*time.Second, "the same load before")
	flag.DurationVar(&flags.Latency, "latency", 5*time.Millisecond, "what the store takes for a request")
	flag.DurationVar(&flags.Linger, "linger", serveLinger, "budget.Options.Linger, by default that of dynalimit keeper serve; 0: its own default")
	flag.StringVar((*string)(&flags.Metering), "metering", string(budget.MeteringStrict), "strict or batch")
	flag.IntVar(&flags.Shards, "shards", 8, "counters that an app's day is spread over")
	flag.DurationVar(&flags.Busy, "busy", 0, "how long a transaction is on its counters, where others meet it and are refused; 0: none are")
	flag.BoolVar(&flags.Partitions, "partitions", false, "the store's partitions take 1,000 write and 3,000 read units a second")
	flag.DurationVar(&flags.Sweep, "sweep", 0, "time between two sweeps of one of the processes; 0: none")
	flag.Uint64Var(&flags.Seed, "seed", 1, "of the instants at which requests are due")
	flag.BoolVar(&flags.Virtual, "virtual", false, "in virtual time, in this process")
}

// named is a load by name: what differs from the defaults.
type named struct {
	name string
	set  func(s *settings)
}

// loads are those whose figures docs/performance.md and docs/cost.md show.
func loads() []named {
	all := []named{
		{"selection", func(s *settings) { s.Select = 2000 }},
		{"submission/1-app", func(s *settings) { s.Submit = 500 }},
		{"submission/1-app/linger=40ms", func(s *settings) { s.Submit, s.Linger = 500, libraryLinger }},
		{"submission/50-apps", func(s *settings) { s.Submit, s.Apps = 500, 50 }},
		{"mixed", func(s *settings) { s.Select, s.Submit, s.Apps = 1000, 250, 10 }},
	}
	// Shares of the load that the source promises.
	for _, share := range []float64{.05, .1, .2, .4, .7, 1} {
		all = append(all, named{fmt.Sprintf("source/share=%g", share), func(s *settings) {
			s.Processes, s.Apps, s.Clients = 4, 20, 256
			s.Select, s.Submit = 10_000*share, 5_000*share
		}})
	}
	// Waits for company: what they cost in time, and save.
	for _, linger := range []time.Duration{time.Millisecond, serveLinger, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, libraryLinger} {
		all = append(all, named{"linger/" + linger.String(), func(s *settings) {
			s.Virtual, s.Submit, s.Linger, s.Clients = true, 500, linger, 1000
		}})
	}
	return slices.Concat(all, shards(), partitions(), months())
}

// shards are traffics on one counter by how many shards it has: each transaction is on its
// shard for 4 ms.
func shards() (all []named) {
	for _, traffic := range []struct {
		processes int
		rate      float64
	}{{1, 50}, {2, 200}, {4, 500}, {8, 1000}, {16, 2000}} {
		for _, n := range []int{1, 8, 16, 64} {
			all = append(all, named{fmt.Sprintf("shards/%dx%g/shards=%d", traffic.processes, traffic.rate, n), func(s *settings) {
				s.Virtual, s.Busy, s.Clients = true, 4*time.Millisecond, 1000
				s.Processes, s.Submit, s.Shards, s.Linger = traffic.processes, traffic.rate, n, libraryLinger
			}})
		}
	}
	return all
}

// partitions are the source's load on one app, whose counters are in partitions as DynamoDB's.
func partitions() (all []named) {
	for _, n := range []int{1, 8, 64} {
		all = append(all, named{fmt.Sprintf("partitions/shards=%d", n), func(s *settings) {
			s.Virtual, s.Partitions, s.Busy, s.Clients = true, true, 4*time.Millisecond, 4000
			s.Processes, s.Select, s.Submit, s.Shards, s.Linger = 16, 10_000, 5000, n, 10*time.Millisecond
		}})
	}
	return all
}

// months are the source's load of which it gives the dollars a month: 10 submissions a
// second, and 4.3 million reads for selections, of which it takes two each.
func months() (all []named) {
	const selections = 4.3e6 / 2
	for _, m := range []named{
		{"strict", func(*settings) {}},
		{"strict-of-two", func(s *settings) { s.Processes = 2 }},
		{"batch", func(s *settings) { s.Metering, s.Linger = budget.MeteringBatch, time.Second }},
	} {
		all = append(all, named{"month/" + m.name, func(s *settings) {
			s.Virtual, s.Submit, s.Select = true, 10, selections/secondsOfMonth
			s.Sweep, s.For = time.Minute, max(s.For, 5*time.Minute)
			m.set(s)
		}})
	}
	return all
}

func (n named) settings() settings {
	s := settings{
		Processes: 1, Clients: 64, Apps: 1, Shards: 8, Latency: 5 * time.Millisecond, Linger: serveLinger,
		For: flags.For, WarmUp: flags.WarmUp, Seed: flags.Seed,
	}
	n.set(&s)
	return s
}

// BenchmarkKeeper has each load once, for as long as -for and -warm-up say.
func BenchmarkKeeper(b *testing.B) {
	b.Run("flags", func(b *testing.B) { flags.run(b) })
	for _, n := range loads() {
		b.Run(n.name, func(b *testing.B) { n.settings().run(b) })
	}
}

func (s settings) run(b *testing.B) {
	var r *report
	once := func(ctx context.Context) (err error) {
		r, err = measure(ctx, s)
		return err
	}
	for b.Loop() {
		if s.Virtual {
			require.NoError(b, program.RunVirtual(once))
		} else {
			require.NoError(b, once(b.Context()))
		}
	}
	program.Report(b, r.values)
	if text := r.firstError(); text != "" {
		b.Log("failed:", text)
	}
}
