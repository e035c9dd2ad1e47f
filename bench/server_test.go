package bench_test

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serverVariable makes the test binary a stub server: what it answers is the
// variable's value, and it ends with its standard input.
const serverVariable = "DYNALIMIT_BENCH_STUB"

// serveStub answers every request on a loopback port with the same body, and
// prints the address.
func serveStub(body string) int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	checksum := strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(body))), 10)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.Header().Set("X-Amz-Crc32", checksum)
		_, _ = io.WriteString(w, body)
	})}
	go func() { _ = server.Serve(listener) }()
	fmt.Println(listener.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = server.Close()
	return 0
}

// onServer sends requests to a stub server in a process of its own, so that its
// work is not counted.
type onServer struct {
	client *http.Client
	addr   string
}

func startServer(tb testing.TB, body []byte) *onServer {
	tb.Helper()
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), serverVariable+"="+string(body))
	stdin, err := process.StdinPipe()
	require.NoError(tb, err)
	stdout, err := process.StdoutPipe()
	require.NoError(tb, err)
	require.NoError(tb, process.Start())
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(tb, err)
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	tb.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = stdin.Close()
		_ = process.Wait()
	})
	return &onServer{client: &http.Client{Transport: transport}, addr: strings.TrimSpace(addr)}
}

func (s *onServer) Do(r *http.Request) (*http.Response, error) {
	r.URL.Scheme, r.URL.Host = "http", s.addr
	return s.client.Do(r)
}
