package lane

import (
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What queues that wait in vain, each after a write of a trip, do to the rest of a process, beside
// ones that do not wait: to a byte that goes to and fro on a socket.
func BenchmarkWaitsInVain(b *testing.B) {
	for _, c := range []struct {
		name   string
		queues int
		wait   bool
	}{{"none", 0, false}, {"100-that-do-not", 100, false}, {"100", 100, true}} {
		b.Run(c.name, func(b *testing.B) {
			end := write(c.queues, c.wait)
			defer end()
			here, there := sockets(b)
			var echo sync.WaitGroup
			echo.Go(func() { _, _ = io.Copy(there, there) }) // until it is closed
			var took []time.Duration
			one := make([]byte, 1)
			for b.Loop() {
				began := time.Now()
				_, err := here.Write(one)
				require.NoError(b, err)
				_, err = io.ReadFull(here, one)
				require.NoError(b, err)
				took = append(took, time.Since(began))
				<-time.After(time.Millisecond)
			}
			require.NoError(b, here.Close())
			echo.Wait()
			require.NoError(b, there.Close())
			slices.Sort(took)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
		})
	}
}

// write has so many queues write again and again until end, and wait after each write for callers
// who do not come.
func write(queues int, wait bool) (end func()) {
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range queues {
		all.Go(func() {
			<-time.After(trip * time.Duration(i) / time.Duration(queues))
			var mu sync.Mutex
			for {
				select {
				case <-stop:
					return
				case <-time.After(trip):
				}
				if !wait {
					continue
				}
				now := time.Now()
				q := queue{gather: &gather{answered: now, watchEnds: now.Add(trip / atOncePart), took: trip, granted: 8, trust: mostTrust}}
				q.gather.wait(&mu, q.gathers(now))
			}
		})
	}
	return func() {
		close(stop)
		all.Wait()
	}
}

// sockets are the two ends of a connection.
func sockets(b *testing.B) (here, there net.Conn) {
	b.Helper()
	var config net.ListenConfig
	l, err := config.Listen(b.Context(), "tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer func() { require.NoError(b, l.Close()) }()
	here, err = net.Dial("tcp", l.Addr().String())
	require.NoError(b, err)
	there, err = l.Accept()
	require.NoError(b, err)
	return here, there
}
