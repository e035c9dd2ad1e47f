package outage

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/bench/internal/program"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// role marks a process as the store. It prints its endpoint and serves until its standard
// input ends, with whoever started it.
const role = "DYNALIMIT_OUTAGE_SERVER"

func serve(ctx context.Context, in io.Reader, out io.Writer) error {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	db := ddbmem.New()
	defer db.Close()
	server := &http.Server{Handler: db, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until close
	fmt.Fprintln(out, "http://"+listener.Addr().String())
	_, _ = io.Copy(io.Discard, in)
	return server.Close()
}

// server is the store's process.
type server struct {
	*program.Child
	endpoint string
}

// startServer starts the store: this program once more.
func startServer(ctx context.Context) (*server, error) {
	child, err := program.Again(ctx, role)
	if err != nil {
		return nil, err
	}
	s := &server{Child: child}
	line, err := bufio.NewReader(child.Out).ReadString('\n')
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("the store did not start: %w", err)
	}
	s.endpoint = strings.TrimSpace(line)
	return s, nil
}

// stop ends the process, stopped or not.
func (s *server) stop() {
	_ = s.In.Close()
	_ = s.Process.Kill()
	_ = s.Wait()
}
