package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/dynalimit/dynalimit/bench/internal/program"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// serverVariable marks a process as the store. It prints its endpoint and serves
// until its standard input ends, with whoever started it.
const serverVariable = "DYNALIMIT_OUTAGE_SERVER"

func serve(_ context.Context, in io.Reader, out io.Writer) error {
	var listen net.ListenConfig
	listener, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
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
	cmd      *exec.Cmd
	in       io.WriteCloser
	endpoint string
}

// startServer starts the store: what dynalimit local of a binary serves, or, for
// "", this program once more.
func startServer(ctx context.Context, binary string) (*server, error) {
	cmd := exec.CommandContext(ctx, binary, "local", "--port", "0")
	if binary == "" {
		var err error
		if cmd, err = program.Again(ctx, serverVariable); err != nil {
			return nil, err
		}
	}
	child, err := program.Start(cmd)
	if err != nil {
		return nil, err
	}
	s := &server{cmd: cmd, in: child.In}
	lines := bufio.NewReader(child.Out)
	line, err := lines.ReadString('\n')
	at := strings.Index(line, "http://")
	if err != nil || at < 0 {
		s.stop()
		return nil, fmt.Errorf("the store did not start: it said %q: %w", line, err)
	}
	s.endpoint = strings.TrimSpace(line[at:])
	go func() { _, _ = io.Copy(io.Discard, lines) }() // until it ends
	return s, nil
}

// signal stops the process or lets it go on.
func (s *server) signal(sig syscall.Signal) error { return s.cmd.Process.Signal(sig) }

// stop ends the process, stopped or not.
func (s *server) stop() {
	_ = s.in.Close()
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}
