package lane

import (
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Lanes that wait in vain, each after a write of a trip, do not slow what else a process does:
// a byte that goes to and fro on a socket.
func BenchmarkWaitsInVain(b *testing.B) {
	for _, lanes := range []int{0, 100} {
		b.Run(strconv.Itoa(lanes), func(b *testing.B) {
			end := waitInVain(lanes)
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

// waitInVain has so many queues wait for callers who do not come, until end.
func waitInVain(lanes int) (end func()) {
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range lanes {
		all.Go(func() {
			<-time.After(trip * time.Duration(i) / time.Duration(lanes))
			var mu sync.Mutex
			for {
				select {
				case <-stop:
					return
				case <-time.After(trip):
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
