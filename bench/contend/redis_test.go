package contend

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
			address, end, err := delay(t.Context(), server, latency)
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
