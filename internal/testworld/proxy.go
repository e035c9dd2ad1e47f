package testworld

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// Death is the state of a TCP connection that both ends take for open.
type Death int32

// The deaths of a connection.
const (
	// Forgotten: nothing arrives any more, at either end. A NAT or a firewall has lost it.
	Forgotten Death = iota + 1
	// BlackHoled: requests arrive and are executed. No answer arrives.
	BlackHoled
	// Reset: the next request is answered by a reset.
	Reset
	// HalfClosed: the next request is answered by the end of the stream.
	HalfClosed
	// Truncated: the next request is executed. Its answer breaks off.
	Truncated
)

// Deaths are all of them, by name.
var Deaths = map[string]Death{
	"forgotten": Forgotten, "black-holed": BlackHoled, "reset": Reset, "half-closed": HalfClosed, "truncated": Truncated,
}

// Proxy is a TCP proxy on loopback, before one server. Its open connections die when Kill is
// called; those that are made later work.
type Proxy struct {
	listener net.Listener
	to       string
	pipes    sync.WaitGroup

	mu    sync.Mutex
	links map[*link]bool
	ended bool
}

// link is one connection through the proxy.
type link struct {
	client, server *net.TCPConn
	death          atomic.Int32
}

// NewProxy opens a proxy on a free local port for the server at the address to, and accepts connections until
// Close.
func NewProxy(ctx context.Context, to string) (*Proxy, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, to: to, links: map[*link]bool{}}
	p.pipes.Go(p.acceptClients)
	return p, nil
}

// Endpoint returns the proxy's URL.
func (p *Proxy) Endpoint() string { return "http://" + p.listener.Addr().String() }

// KillConnections breaks every open connection in the way d, and returns their number. Later connections work.
func (p *Proxy) KillConnections(d Death) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.death.Store(int32(d))
	}
	return len(p.links)
}

// Close ends the proxy, closes its connections, and waits until their goroutines have ended.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.ended = true
	for l := range p.links {
		l.close()
	}
	p.mu.Unlock()
	p.pipes.Wait()
}

// acceptClients connects every accepted client to the server, until the listener closes. If the server cannot
// be reached, it closes the client's connection.
func (p *Proxy) acceptClients() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.startLink(&link{client: client.(*net.TCPConn), server: server.(*net.TCPConn)}) //nolint:forcetypeassert // both are
	}
}

// startLink starts the goroutines that pass bytes between the two ends of a link. After Close it closes both
// ends at once.
func (p *Proxy) startLink(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		l.close()
		return
	}
	p.links[l] = true
	var ends sync.WaitGroup
	ends.Go(l.passRequests)
	ends.Go(l.passAnswers)
	p.pipes.Go(func() {
		ends.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	})
}

// close closes both ends of the link.
func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// passRequests passes the client's bytes to the server until either end closes, and then closes both. A
// Forgotten link drops them, Reset closes with a reset, and HalfClosed ends the stream to the client.
func (l *link) passRequests() {
	defer l.close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := l.client.Read(buffer)
		if err != nil {
			return
		}
		switch Death(l.death.Load()) {
		case Forgotten:
			continue
		case Reset:
			_ = l.client.SetLinger(0) // closing then resets
			return
		case HalfClosed:
			_ = l.client.CloseWrite()
			continue
		default:
		}
		if _, err := l.server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// passAnswers passes the server's bytes to the client until either end closes, and then closes both. A
// Forgotten or BlackHoled link drops them, and Truncated passes three quarters and closes.
func (l *link) passAnswers() {
	defer l.close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := l.server.Read(buffer)
		if err != nil {
			return
		}
		switch Death(l.death.Load()) {
		case Forgotten, BlackHoled:
			continue
		case Truncated:
			_, _ = l.client.Write(buffer[:n*3/4])
			return
		default:
		}
		if _, err := l.client.Write(buffer[:n]); err != nil {
			return
		}
	}
}
