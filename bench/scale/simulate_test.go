package scale

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/bench/internal/program"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inVirtualTime simulates in a bubble.
func inVirtualTime(t *testing.T, s settings) (r *report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		r, err = simulate(t.Context(), s)
		require.NoError(t, err)
	})
	return r
}

// few is a simulation of a few processes that offer half as much again as the
// limit.
func few(call string) settings {
	return settings{
		processes: 20, each: 0.75, rate: 10, burst: 10, call: call, patience: time.Second,
		warmUp: 5 * time.Second, lasting: 20 * time.Second, latency: 5 * time.Millisecond, partition: 1000,
	}
}

func TestSimulate(t *testing.T) {
	for _, call := range []string{"acquire", "retry", "wait"} {
		t.Run(call, func(t *testing.T) {
			r := inVirtualTime(t, few(call))
			require.Empty(t, r.errors)
			require.Equal(t, r.offered, r.granted+r.denied)
			require.Zero(t, r.values["above-limit"], "over-admitted")
			require.Greater(t, r.values["of-limit"], 0.9)
			require.Positive(t, r.values["p50-ms"])
			require.Positive(t, r.values["landed/s"])
			require.Zero(t, r.values["throttled/s"])
		})
	}
}

// Processes that contend for the refill of a round trip must not refuse each
// other for as long as they outnumber it: a call costs two writes at most.
func TestProcessesDoNotRefuseEachOtherForEver(t *testing.T) {
	s := few("acquire")
	s.processes, s.each, s.rate, s.burst = 200, 1.5, 200, 200
	r := inVirtualTime(t, s)
	require.Empty(t, r.errors)
	require.Zero(t, r.values["above-limit"], "over-admitted")
	require.Greater(t, r.values["of-limit"], 0.99)
	require.Less(t, r.values["writes/s"], 2*float64(r.offered)/s.lasting.Seconds())
}

// Heads of different processes that wait for the same tokens do not meet again and
// again: each used to write at the instant of each token.
func TestWaitersOfManyProcessesAreNoHerd(t *testing.T) {
	s := few("wait")
	s.processes, s.each, s.rate, s.burst = 100, 0.3, 20, 20
	r := inVirtualTime(t, s)
	require.Empty(t, r.errors)
	require.Zero(t, r.values["above-limit"], "over-admitted")
	require.Greater(t, r.values["of-limit"], 0.97)
	require.Less(t, r.values["writes/s"], 6*float64(s.rate))
}

// With Prefetch nearly all calls of busy processes are granted from memory. What is
// neither admitted nor left in a bucket that never gets full has lapsed.
func TestPrefetchSparesThePartition(t *testing.T) {
	s := few("acquire")
	s.processes, s.each, s.rate, s.burst, s.start = 10, 50, 1000, 60_000, "part"
	without := inVirtualTime(t, s)
	require.Zero(t, without.served)

	s.prefetch = time.Second
	r := inVirtualTime(t, s)
	require.Empty(t, r.errors)
	require.Greater(t, r.values["from-memory"], 0.99)
	require.Less(t, r.values["load"], without.values["load"]/10)
	require.Positive(t, r.ledger.Lost)
	require.Less(t, r.values["lapsed"], 0.05)
	require.Zero(t, r.values["above-limit"])
}

func TestAPartitionThatIsTooSmallThrottles(t *testing.T) {
	s := few("acquire")
	s.partition = 5
	r := inVirtualTime(t, s)
	require.Positive(t, r.values["throttled/s"])
	require.Zero(t, r.values["above-limit"], "over-admitted")
}

func TestPartition(t *testing.T) {
	start := time.Unix(1000, 0)
	p := newPartition(10, 1, start)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for range 10 {
		require.True(t, p.take(1, at(0)), "a second's worth at once")
	}
	require.False(t, p.take(1, at(0)))
	require.False(t, p.take(1, at(99)))
	require.True(t, p.take(1, at(200)))
	require.EqualValues(t, 2, p.throttled)

	for range 10 {
		require.True(t, p.take(1, at(5000)), "it holds no more than a second's worth")
	}
	require.False(t, p.take(1, at(5000)))

	mean, peak := p.loadBetween(0, 10)
	require.InDelta(t, 21.0/10/10, mean, 1e-9)
	require.InDelta(t, 1.1, peak, 1e-9)
	mean, peak = p.loadBetween(1, 5)
	require.Zero(t, mean)
	require.Zero(t, peak)
}

func TestPartitionHoldsWhatWasNotUsed(t *testing.T) {
	start := time.Unix(1000, 0)
	p := newPartition(10, 300, start)
	for range 3000 {
		require.True(t, p.take(1, start))
	}
	require.False(t, p.take(1, start))
	require.True(t, newPartition(0, 1, start).take(1, start), "no bound")
}

// flags are the fleet of Scale/flags; -warm-up, -for and -holds are for the named ones too.
var flags settings

func init() {
	flag.IntVar(&flags.processes, "processes", 1000, "processes, each with a limiter of its own")
	flag.Float64Var(&flags.each, "each", 0.3, "calls a second that each offers, at random instants")
	flag.Int64Var(&flags.rate, "rate", 200, "tokens a second of the one bucket; a call takes one")
	flag.Int64Var(&flags.burst, "burst", 200, "tokens it holds")
	flag.StringVar(&flags.call, "call", "acquire", "acquire: once; retry: again after RetryAfter; wait")
	flag.DurationVar(&flags.patience, "patience", time.Second, "when retry and wait give up")
	flag.DurationVar(&flags.warmUp, "warm-up", 15*time.Second, "time before what is measured")
	flag.DurationVar(&flags.lasting, "for", 20*time.Second, "time measured")
	flag.DurationVar(&flags.latency, "latency", 5*time.Millisecond, "round trip to the store, on average")
	flag.Float64Var(&flags.spread, "spread", 0.2, "the share that a trip takes more or less, each way, at random")
	flag.Float64Var(&flags.partition, "partition", 1000, "write units a second of the bucket's partition; 0: no bound")
	flag.Float64Var(&flags.reads, "reads", 3000, "its read units a second; 0: no bound")
	flag.Float64Var(&flags.holds, "holds", 1, "seconds of unused throughput that the partition lends: DynamoDB's may lend 300")
	flag.DurationVar(&flags.timeout, "timeout-of-calls", 0, "Options.Timeout; 0: its default")
	flag.DurationVar(&flags.prefetch, "prefetch", 0, "Options.Prefetch; 0: none")
	flag.StringVar(&flags.start, "start", "empty", "the bucket at the start: empty, full, or part: three fifths full")
	flag.BoolVar(&flags.real, "real", false, "in real time; the machine must keep up")
}

// fleet is some processes on one bucket.
type fleet struct {
	processes int
	each      float64
	times     float64 // the limit, as a multiple of what all of them ask for
}

// scenario is a named set of fleets, and what their settings are.
type scenario struct {
	name   string
	set    func(s *settings)
	fleets []fleet
}

// scenarios are shown in docs/performance.md, and judged by make bench.
var scenarios = []scenario{
	{"many-acquire", many, []fleet{{1000, 0.3, 200. / 300}}},
	{"many-wait", func(s *settings) { many(s); s.call, s.patience = "wait", time.Second }, []fleet{{1000, 0.3, 200. / 300}}},
	{"A", popular, []fleet{{50, 100, 2}}},
	{"A-1s", ahead(time.Second), []fleet{{50, 100, 2}}},
	{"A-250ms", ahead(250 * time.Millisecond), []fleet{{50, 100, 2}}},
	{"A2", popular, []fleet{{200, 25, 2}, {1000, 5, 2}}},
	{"B", scarce, []fleet{{50, 100, 0.4}}},
	{"C", func(s *settings) { scarce(s); s.call, s.patience = "wait", time.Second }, []fleet{{1000, 0.3, 200. / 300}}},
	{"crowd", func(s *settings) {
		scarce(s)
		s.call, s.patience, s.warmUp = "wait", time.Second, min(s.warmUp, time.Second)
	}, []fleet{{1000, 1, 0.2}}},
	{"D", scarce, []fleet{{10_000, 0.3, 200. / 3000}}},
	{"F", full, []fleet{{10, 10, 1.2}, {10, 10, 20}, {200, 20, 1.2}, {200, 20, 20}, {1000, 5, 1.2}, {1000, 5, 20}}},
	{"B-real", func(s *settings) {
		scarce(s)
		s.real, s.warmUp, s.lasting = true, min(s.warmUp, 5*time.Second), min(s.lasting, 10*time.Second)
	}, []fleet{{8, 625, 0.4}}},
	{"F-real", func(s *settings) { full(s); s.real = true }, []fleet{{8, 150, 1.2}, {8, 150, 4}, {60, 20, 1.2}, {60, 20, 4}, {200, 10, 1.2}, {200, 10, 4}}},
}

// many is a bucket of a second's burst, and requests that take much the same time.
func many(s *settings) { s.start, s.spread = "empty", 0.2 }

// popular is a bucket that has a minute's burst and stays nearly full: what is scarce is
// the partition. A call may wait for longer than usual for its turn.
func popular(s *settings) {
	s.start, s.burst, s.timeout = "full", 60*s.rate, 5*time.Second
	s.lasting = min(s.lasting, 15*time.Second)
}

// ahead is a popular bucket with Prefetch, that never gets full in the measured time: what
// it loses then is what lapses.
func ahead(horizon time.Duration) func(s *settings) {
	return func(s *settings) {
		popular(s)
		s.start, s.prefetch = "part", horizon
	}
}

// scarce is a bucket of a second's burst that is always empty.
func scarce(s *settings) { s.start = "empty" }

// full is a bucket of a second's burst that is nearly full, as most in production are,
// without a bound on the partition. Times that a throttled partition needs to settle are
// cut short.
func full(s *settings) {
	s.start, s.partition, s.reads = "full", 0, 0
	s.warmUp, s.lasting = min(s.warmUp, time.Second), min(s.lasting, 4*time.Second)
}

// settingsOf are the settings of a fleet, each request 2 to 8 ms under way.
func (sc scenario) settingsOf(f fleet) settings {
	limit := int64(f.times*float64(f.processes)*f.each + 0.5)
	s := settings{
		processes: f.processes, each: f.each, rate: limit, burst: limit, call: "acquire", partition: 1000, reads: 3000,
		latency: 5 * time.Millisecond, spread: 0.6, warmUp: flags.warmUp, lasting: flags.lasting, holds: flags.holds,
	}
	sc.set(&s)
	return s
}

// BenchmarkScale runs each fleet once, in seconds of virtual time.
func BenchmarkScale(b *testing.B) {
	b.Run("flags", func(b *testing.B) { flags.run(b) })
	for _, sc := range scenarios {
		for _, f := range sc.fleets {
			b.Run(fmt.Sprintf("%s/%dx%g/limit=%.3gx", sc.name, f.processes, f.each, f.times), func(b *testing.B) { sc.settingsOf(f).run(b) })
		}
	}
}

func (s settings) run(b *testing.B) {
	var r *report
	simulateOnce := func(ctx context.Context) (err error) {
		r, err = simulate(ctx, s)
		return err
	}
	for b.Loop() {
		if s.real {
			require.NoError(b, simulateOnce(b.Context()))
			continue
		}
		require.NoError(b, program.RunVirtual(simulateOnce))
	}
	program.Report(b, r.values)
	for _, text := range r.errors {
		b.Log("failed:", text)
	}
}
