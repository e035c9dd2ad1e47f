package contend

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit/bench/internal/latency"
	"github.com/dynalimit/dynalimit/bench/internal/program"
)

func TestMain(m *testing.M) {
	if program.RunChild(work) { // contend runs itself again
		return
	}
	goleak.VerifyTestMain(m)
}

// flags are the contest of Contend/flags; -for and -latency are for the named ones too.
var flags settings

func init() {
	flag.IntVar(&flags.Processes, "processes", 8, "processes")
	flag.IntVar(&flags.Goroutines, "goroutines", 64, "goroutines of each process")
	flag.IntVar(&flags.Buckets, "buckets", 1, "buckets they share")
	flag.DurationVar(&flags.For, "for", 4*time.Second, "how long")
	flag.DurationVar(&flags.Latency, "latency", 5*time.Millisecond, "what ddbmem waits before it executes a request")
	flag.StringVar(&flags.Start, "start", "full", "the buckets at the start: full or empty")
	flag.StringVar(&flags.Call, "call", "acquire", "acquire, which comes back after RetryAfter when denied, or wait")
	flag.Int64Var(&flags.Burst, "burst", 1_000_000_000, "tokens a bucket holds")
	flag.Int64Var(&flags.Rate, "rate", 1000, "tokens it regains a second")
	flag.Float64Var(&flags.Load, "load", 0, "calls a second of all together; 0: each goroutine calls again at once")
}

// named is a contest on a bucket that never runs empty.
func named(processes, goroutines int) settings {
	return settings{
		Processes: processes, Goroutines: goroutines, Buckets: 1, For: flags.For, Latency: flags.Latency,
		Start: "full", Call: "acquire", Burst: 1_000_000_000, Rate: 1000,
	}
}

// BenchmarkContend runs each contest once, in seconds; make bench judges what comes out.
func BenchmarkContend(b *testing.B) {
	b.Run("flags", func(b *testing.B) { flags.run(b) })
	b.Run("1x32", func(b *testing.B) { named(1, 32).run(b) })
	b.Run("1x256", func(b *testing.B) { named(1, 256).run(b) })
	b.Run("8x64", func(b *testing.B) { named(8, 64).run(b) })
	for _, call := range []string{"acquire", "wait"} {
		for _, start := range []string{"empty", "full"} {
			s := named(8, 64)
			s.Rate, s.Burst, s.Call, s.Start = 500, 1000, call, start
			b.Run("exhausted/"+call+"/"+start, func(b *testing.B) { s.run(b) })
		}
	}
	for _, latency := range []time.Duration{5 * time.Millisecond, time.Millisecond, 500 * time.Microsecond} {
		b.Run("beside/"+latency.String(), func(b *testing.B) { beside(b, latency) })
	}
}

// beside sets this library's limiter, without Prefetch and with it, beside others on Redis,
// behind the same latency. Without a redis-server the others are left out.
func beside(b *testing.B, latency time.Duration) {
	_, err := exec.LookPath(redisServer)
	if err != nil {
		b.Log("the rows of Redis are left out:", err)
	}
	for _, of := range [][2]int{{1, 1}, {1, 32}, {1, 256}, {4, 32}} {
		s := named(of[0], of[1])
		s.Latency = latency
		name := fmt.Sprintf("%dx%d/", of[0], of[1])
		b.Run(name+"dynalimit", func(b *testing.B) { s.run(b) })
		ahead := s
		ahead.Prefetch = time.Second
		b.Run(name+"prefetch", func(b *testing.B) { ahead.run(b) })
		for _, peer := range []string{"redis_rate", "rueidis"} {
			if err != nil {
				continue
			}
			on := s
			on.Peer = peer
			b.Run(name+peer, func(b *testing.B) { on.run(b) })
		}
	}
}

func (s settings) run(b *testing.B) {
	var o *outcome
	var err error
	for b.Loop() {
		o, err = s.contest(b.Context())
		require.NoError(b, err)
	}
	program.Report(b, o.values)
	if o.Failed > 0 {
		b.Log("failed:", o.FirstError)
	}
}

// contest runs the contest on the store that its limiter needs.
func (s settings) contest(ctx context.Context) (*outcome, error) {
	if s.Peer == "" {
		return contend(ctx, s)
	}
	address, end, err := serveRedis(ctx, s.Latency)
	if err != nil {
		return nil, err
	}
	o, err := contendOnRedis(ctx, s, address)
	return o, errors.Join(err, end())
}

func TestContend(t *testing.T) {
	for name, change := range map[string]func(*settings){
		"closed loop":  func(s *settings) { s.Buckets = 3 },
		"offered load": func(s *settings) { s.Load = 500 },
		"exhausted":    func(s *settings) { s.Rate, s.Burst, s.Start = 100, 10_000, "empty" },
		"waiting":      func(s *settings) { s.Rate, s.Burst, s.Start, s.Call = 100, 10_000, "empty", "wait" },
	} {
		t.Run(name, func(t *testing.T) {
			s := named(2, 4)
			s.For, s.Latency = 300*time.Millisecond, time.Millisecond
			change(&s)
			o, err := contend(t.Context(), s)
			require.NoError(t, err)
			require.Zero(t, o.Failed, o.FirstError)
			require.Positive(t, o.Granted)
			require.Equal(t, o.Granted, latency.Import(o.Latency).Summary().Count)
			require.Zero(t, o.values["miscounted"], "the store's counter is what was granted")
			require.Zero(t, o.values["above-limit"], "over-admitted")
			require.Positive(t, o.values["wcu/op"])
			require.Positive(t, o.values["p50/bare"])
			if s.Start == "empty" {
				require.InDelta(t, 1, o.values["used"], 0, "from empty nothing is lost")
			}
		})
	}
}

// fakeRedis speaks as much of the protocol as the clients need: each script is answered with
// one token, and counted.
func fakeRedis(t *testing.T) (address string, scripts *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a test's own
	require.NoError(t, err)
	scripts = new(atomic.Int64)
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			all.Go(func() { answerRedis(c, scripts) })
		}
	})
	t.Cleanup(func() {
		assert.NoError(t, l.Close())
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return l.Addr().String(), scripts
}

func answerRedis(c net.Conn, scripts *atomic.Int64) {
	in := bufio.NewReader(c)
	for {
		words, err := command(in)
		if err != nil {
			return
		}
		answer := "+OK\r\n"
		switch strings.ToUpper(words[0]) {
		case "HELLO":
			answer = "%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n"
		case "PING":
			answer = "+PONG\r\n"
		case "EVALSHA", "EVAL":
			scripts.Add(1)
			answer = "*2\r\n:1\r\n:0\r\n"
			if strings.HasPrefix(words[3], "rate:") { // redis_rate's: allowed, left, retry after, reset after
				answer = "*4\r\n:1\r\n:9\r\n$2\r\n-1\r\n$1\r\n0\r\n"
			}
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

// command reads one command: an array of strings.
func command(in *bufio.Reader) (words []string, err error) {
	number := func(sign byte) (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		if line[0] != sign {
			return 0, fmt.Errorf("%q does not begin with %c", line, sign)
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number('*')
	for err == nil && len(words) < n {
		var size int
		if size, err = number('$'); err != nil {
			break
		}
		text := make([]byte, size+2)
		_, err = io.ReadFull(in, text)
		words = append(words, string(text[:size]))
	}
	return words, err
}

// Each limiter on Redis runs as ours does: real processes, behind the latency.
func TestContendOnRedis(t *testing.T) {
	for name := range peers {
		t.Run(name, func(t *testing.T) {
			server, scripts := fakeRedis(t)
			const latency = 5 * time.Millisecond
			address, end, err := serveDelayed(t.Context(), server, latency)
			require.NoError(t, err)
			s := named(2, 4)
			s.For, s.Peer = 300*time.Millisecond, name
			o, err := contendOnRedis(t.Context(), s, address)
			require.NoError(t, err)
			require.NoError(t, end())
			require.Zero(t, o.Failed, o.FirstError)
			require.Positive(t, o.Granted)
			require.GreaterOrEqual(t, scripts.Load(), o.Granted)
			require.GreaterOrEqual(t, o.values["p50-ms"], 5.0, "behind the latency")
		})
	}
}

// A machine without the program says so.
func TestRedisThatIsNotThere(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, _, err := serveRedis(t.Context(), time.Millisecond)
	require.ErrorContains(t, err, redisServer)
}
