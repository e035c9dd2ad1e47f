package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/aws/smithy-go/logging"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/doctor"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/gate"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/console"
	"github.com/dynalimit/dynalimit/prices"
)

const (
	// mostConnections bounds the browsers' connections to the console.
	mostConnections = 64
	// consoleHeaderTime and the like bound a connection of the console. consoleWriteTime lets the doctor end.
	consoleHeaderTime, consoleReadTime, consoleWriteTime, consoleIdleTime = 5 * time.Second, 10 * time.Second, 150 * time.Second, 2 * time.Minute
)

// consoleCmd serves the console on loopback.
type consoleCmd struct {
	Port     int    `help:"Port of 127.0.0.1 to listen on; 0 takes a free one." default:"7777"`
	Resource string `help:"Resource or group whose limits lists show. Default: the group with the most models." placeholder:"NAME"`
	Changes  bool   `help:"Allow changes: blocks, raises, grants and refills, in the name of --as. Default: read only."`
	Timezone string `help:"Time zone of the shown times. Default: UTC." default:"UTC" placeholder:"ZONE"`
}

// Validate refuses an invalid port and an unknown time zone.
func (c consoleCmd) Validate() error {
	if c.Port < 0 || c.Port > 65535 {
		return fmt.Errorf("--port %d is not a port: use 1 to 65535, or 0 for a free one", c.Port)
	}
	if _, err := time.LoadLocation(c.Timezone); err != nil {
		return fmt.Errorf("--timezone %s is not known: give a name of the IANA, such as Europe/Berlin", c.Timezone)
	}
	return nil
}

// Run serves the console on 127.0.0.1 until ctx ends, then gives open requests shutdownTime. It prints an
// address with a code, valid once for two minutes. When somebody opens the login page without a valid code, it
// prints another one.
func (c consoleCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	listener, err := localCmd{Host: "127.0.0.1", Port: c.Port}.openListener(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	printed := make(chan string, 1)
	door := gate.New(port, func() time.Time { return now(ctx) }, func(code string) {
		select {
		case <-printed: // the code before ended before it was printed
		default:
		}
		printed <- code
	})
	handler, principal, err := c.makeHandler(ctx, g, door)
	if err != nil {
		return g.explainError(ctx, err)
	}
	door.SetPage(handler)
	server := newConsoleServer(door)
	served := make(chan error, 1)
	go func() {
		served <- server.Serve(&boundedListener{Listener: listener, places: make(chan struct{}, mostConnections)})
	}()
	fmt.Fprintf(out, "%s %s\n", out.Bold("Console of the table"), out.Bold(term.Plain(g.Table)))
	fmt.Fprintln(out, out.Dim("This machine only, "+c.describeAccess(principal)+". Each address below is valid once, for two minutes. Ctrl-C stops it."))
	door.Issue()
	for {
		select {
		case code := <-printed:
			fmt.Fprintf(out, "%s\n", out.Cyan("http://127.0.0.1:"+port+"/#"+code))
			continue
		case err := <-served:
			return fmt.Errorf("the server ended: %w; start it again", err)
		case <-ctx.Done():
		}
		break
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if err := server.Shutdown(closing); err != nil {
		_ = server.Close() // cuts off the remaining requests
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("the server ended badly: %w; start it again", err)
	}
	return nil
}

// newConsoleServer returns a server of the handler that cuts off slow clients by timeouts and discards its
// error log. It does not start it.
func newConsoleServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: consoleHeaderTime, ReadTimeout: consoleReadTime, WriteTimeout: consoleWriteTime, IdleTimeout: consoleIdleTime,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(slog.NewTextHandler(io.Discard, nil), slog.LevelError),
	}
}

// describeAccess returns a text for the terminal: "read only", or with --changes that every session makes
// changes as principal.
func (c consoleCmd) describeAccess(principal string) string {
	if !c.Changes {
		return "read only"
	}
	return "changes allowed: every session makes them as " + term.Plain(principal)
}

// makeHandler returns the console's handler, which admits only sessions of the door, and their principal. That
// is --as; with --changes its default is the caller's identity, else "on this machine". It fails if the
// namespace is not registered.
func (c consoleCmd) makeHandler(ctx context.Context, g *globals, door *gate.Gate) (http.Handler, string, error) {
	o := g.connectOptions(ctx)
	cfg, err := o.Config(ctx)
	if err != nil {
		return nil, "", err
	}
	principal := g.As
	if c.Changes {
		if principal, err = o.Identity(ctx, cfg); err != nil {
			return nil, "", err
		}
	} else if principal == "" {
		principal = "on this machine"
	}
	cfg.Logger = logging.Nop{}
	client := o.ClientOf(cfg)
	repo, err := o.WithClient(client)
	if err != nil {
		return nil, principal, err
	}
	if err := g.checkRegistered(ctx, repo); err != nil {
		return nil, principal, err
	}
	usage, err := aggregator.NewReader(client, g.Table, &aggregator.ReaderOptions{Namespace: g.Namespace, Began: g.tableCreated(ctx), Now: clockOf(ctx)})
	if err != nil {
		return nil, principal, err
	}
	zone, err := time.LoadLocation(c.Timezone)
	if err != nil {
		return nil, principal, err
	}
	handler, err := console.New(repo, usage, &console.Options{
		Prices: prices.CatalogList(), Prefix: door.Prefix, Resource: c.Resource, Location: zone, Where: o.Where(), Now: clockOf(ctx),
		Authorize: func(r *http.Request) (console.Access, error) {
			session := door.Session(r)
			if session == "" {
				return console.Access{}, console.ErrLogin
			}
			return console.Access{Principal: principal, Change: c.Changes, Session: session}, nil
		},
		Doctor: func(ctx context.Context) ([]console.Finding, error) { return examineForConsole(ctx, g) },
	})
	return handler, principal, err
}

// examineForConsole runs the doctor's checks of the role "read", each request within 5 s, and returns the
// findings for the console. It prints nothing.
func examineForConsole(ctx context.Context, g *globals) ([]console.Finding, error) {
	quiet := &term.Output{Writer: io.Discard, Notes: io.Discard}
	found, err := doctorCmd{Role: doctor.Role("read"), whichTables: whichTables{Control: "control", Usage: "usage"}, Timeout: 5 * time.Second}.runChecks(ctx, g, quiet)
	if err != nil {
		return nil, err
	}
	findings := make([]console.Finding, len(found))
	for i, f := range found {
		text := f.Found
		if f.Means != "" {
			text += "; " + f.Means
		}
		findings[i] = console.Finding{Status: string(f.Status), Check: f.Check, Found: text, Fix: f.Fix}
	}
	return findings, nil
}

// boundedListener accepts as many connections at once as it has places.
type boundedListener struct {
	net.Listener
	places chan struct{}
}

// Accept waits without limit for a free place and then for a connection, which gives the place back when it is
// closed. After an error it gives the place back itself.
func (l *boundedListener) Accept() (net.Conn, error) {
	l.places <- struct{}{}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &placedConn{Conn: conn, leave: sync.OnceFunc(func() { <-l.places })}, nil
}

// placedConn is a connection with a place.
type placedConn struct {
	net.Conn
	leave func()
}

// Close closes the connection and gives its place in the listener back, once however often it is called.
func (c *placedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
