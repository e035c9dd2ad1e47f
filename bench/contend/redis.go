package contend

import (
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/bench/internal/program"
)

// redisServer is the program for the rows of Redis, in PATH.
const redisServer = "redis-server"

// serveRedis starts a Redis without persistence on a loopback port, behind a latency, and returns its address;
// end stops it. As with ddbmem, a request waits for the latency before the server gets it.
func serveRedis(ctx context.Context, latency time.Duration) (address string, end func() error, err error) {
	port, err := freePort(ctx)
	if err != nil {
		return "", nil, err
	}
	server := exec.CommandContext(ctx, redisServer, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	if err := server.Start(); err != nil {
		return "", nil, err
	}
	kill := func() error {
		err := server.Process.Kill()
		_ = server.Wait() // it was killed
		return err
	}
	behind := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if err := awaitServer(ctx, behind); err != nil {
		return "", nil, errors.Join(err, kill())
	}
	address, stop, err := serveDelayed(ctx, behind, latency)
	if err != nil {
		return "", nil, errors.Join(err, kill())
	}
	return address, func() error { return errors.Join(stop(), kill()) }, nil
}

// freePort returns a loopback port that was free a moment ago.
func freePort(ctx context.Context) (int, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// awaitServer dials until a server accepts connections at address, for up to 5 s.
func awaitServer(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var dialer net.Dialer
	for {
		c, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			return c.Close()
		}
		if !program.Pause(ctx, 10*time.Millisecond) {
			return err
		}
	}
}

// serveDelayed forwards connections from a loopback port to server. It holds each request back for latency, but
// no answer. end closes the port and all connections.
func serveDelayed(ctx context.Context, server string, latency time.Duration) (address string, end func() error, err error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // the end
			}
			all.Go(func() { forwardConnection(ctx, client, server, latency) })
		}
	})
	return l.Addr().String(), func() error {
		err := l.Close()
		cancel()
		all.Wait()
		return err
	}, nil
}

// sent is data with the instant of its arrival.
type sent struct {
	at   time.Time
	text []byte
}

// forwardConnection forwards the connection client to the server at address, and delays each request by
// latency, but no answer. It returns when either side or ctx ends it, and closes both.
func forwardConnection(ctx context.Context, client net.Conn, address string, latency time.Duration) {
	var dialer net.Dialer
	server, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		_ = client.Close()
		return
	}
	hangUp := func() { // either end closes both
		_ = client.Close()
		_ = server.Close()
	}
	defer context.AfterFunc(ctx, hangUp)()
	pending := make(chan sent, 1024)
	var both sync.WaitGroup
	both.Go(func() {
		defer hangUp()
		_, _ = io.Copy(client, server)
	})
	both.Go(func() {
		defer hangUp()
		for s := range pending {
			if !program.Pause(ctx, time.Until(s.at.Add(latency))) {
				break
			}
			if _, err := server.Write(s.text); err != nil {
				break
			}
		}
		for range pending { // discard the rest
		}
	})
	for {
		text := make([]byte, 16<<10)
		n, err := client.Read(text)
		if n > 0 {
			pending <- sent{time.Now(), text[:n]}
		}
		if err != nil {
			break
		}
	}
	close(pending)
	hangUp()
	both.Wait()
}
