package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// bareProxy names the variable with the provider's URL for which this test's program is a bare reverse proxy.
const bareProxy = "DYNALIMIT_BARE_PROXY"

// serveBareProxy serves a reverse proxy without limits until it is killed, and prints its URL.
func serveBareProxy(provider string) {
	target := must(url.Parse(provider))
	base := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one
	base.MaxIdleConnsPerHost = 256
	server := httptest.NewServer(&httputil.ReverseProxy{Transport: base, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }})
	fmt.Println(server.URL)
	select {}
}

// BenchmarkGateway measures calls through a process of the gateway, behind a store that answers after 5 ms: the median
// time of a call, its units, and the processor's time of the process a call, beside that of a bare reverse proxy in the
// same run. It needs Linux.
func BenchmarkGateway(b *testing.B) {
	f := newFleet(b)
	limits, err := os.ReadFile("limits.yaml")
	require.NoError(b, err)
	f.apply(strings.NewReplacer("rpm: 600", "rpm: 60M", "tpm: 100k", "tpm: 900M", "tpm: 1M", "tpm: 900M", "$60", "$60000", "$50", "$50000", "$5\"", "$50000\"").Replace(string(limits)))
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-time.After(5 * time.Millisecond)
		f.db.ServeHTTP(w, r)
	}))
	b.Cleanup(slow.Close)
	for _, callers := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("%d callers", callers), func(b *testing.B) {
			gate, limited := f.startAt(slow.URL)
			bare := exec.CommandContext(b.Context(), os.Args[0]) //nolint:gosec // of this test
			bare.Env = append(os.Environ(), bareProxy+"="+f.provider.URL())
			plain := f.startProgram(bare)
			f.callOften(gate, callers, 20*callers)
			f.callOften(plain, callers, 20*callers)
			before, at := f.db.Meter(), cpuOf(b, limited)
			median := f.callOften(gate, callers, b.N)
			cpu, used := cpuOf(b, limited)-at, f.db.Meter().Sub(before)
			at = cpuOf(b, bare)
			f.callOften(plain, callers, b.N)
			alone := cpuOf(b, bare) - at
			n := float64(b.N)
			b.ReportMetric(median.Seconds()*1000, "p50-ms")
			b.ReportMetric(used.WriteUnits()/n+used.ReadUnits()/n, "units/call")
			b.ReportMetric(float64(used.Requests())/n, "requests/call")
			b.ReportMetric(cpu.Seconds()*1e6/n, "cpu-µs/call")
			b.ReportMetric(cpu.Seconds()/max(alone.Seconds(), 1e-3), "cpu/bare")
		})
	}
}

// callOften makes n calls in closed loops of callers, and returns the median of their times.
func (f *fleet) callOften(at string, callers, n int) time.Duration {
	f.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	defer client.CloseIdleConnections()
	times := make([]time.Duration, n)
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			for i := c; i < n; i += callers {
				began := time.Now()
				r, err := http.NewRequestWithContext(f.Context(), http.MethodPost, at+"/v1/chat/completions", strings.NewReader(body))
				if err != nil {
					f.Error(err)
					return
				}
				r.Header.Set("Authorization", "Bearer sk-a")
				res, err := client.Do(r)
				if err != nil {
					f.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if res.StatusCode != http.StatusOK {
					f.Errorf("status %d", res.StatusCode)
					return
				}
				times[i] = time.Since(began)
			}
		})
	}
	group.Wait()
	slices.Sort(times)
	return times[len(times)/2]
}

// cpuOf returns the processor's time of a running process so far, in steps of 10 ms.
func cpuOf(b *testing.B, process *exec.Cmd) time.Duration {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process.Process.Pid))
	require.NoError(b, err)
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')'):]))
	user, err := strconv.Atoi(fields[12])
	require.NoError(b, err)
	system, err := strconv.Atoi(fields[13])
	require.NoError(b, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}
