package keeper

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// client asks one question after another.
type client interface {
	// ask returns the status of the answer, and its body.
	ask(ctx context.Context, q question) (status int, body []byte, err error)
	close()
}

// answerTime is how long a client waits for an answer.
const answerTime = 20 * time.Second

// connection is a client over TCP. It does little more than the system does, so that the
// processors are the keeper's.
type connection struct {
	address string
	conn    net.Conn
	in      *bufio.Reader
	out     []byte
	body    bytes.Buffer
}

func (c *connection) ask(ctx context.Context, q question) (int, []byte, error) {
	status, err := c.exchange(ctx, q)
	if err != nil {
		c.close()
	}
	return status, c.body.Bytes(), err
}

func (c *connection) exchange(ctx context.Context, q question) (int, error) {
	if c.conn == nil {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", c.address)
		if err != nil {
			return 0, err
		}
		c.conn, c.in = conn, bufio.NewReader(conn)
	}
	if err := c.conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return 0, err
	}
	c.out = q.append(c.out[:0], c.address)
	if _, err := c.conn.Write(c.out); err != nil {
		return 0, err
	}
	answer, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	c.body.Reset()
	if _, err := io.Copy(&c.body, answer.Body); err != nil {
		return 0, err
	}
	if answer.Close {
		c.close()
	}
	return answer.StatusCode, nil
}

func (c *connection) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// caller is a client that calls a handler, for virtual time, in which there is no TCP.
type caller struct{ handler http.Handler }

func (c caller) ask(ctx context.Context, q question) (int, []byte, error) {
	r, err := q.request(ctx)
	if err != nil {
		return 0, nil, err
	}
	w := &recorder{header: http.Header{}, status: http.StatusOK}
	c.handler.ServeHTTP(w, r)
	return w.status, w.body.Bytes(), nil
}

func (caller) close() {}

// recorder keeps an answer. That of net/http/httptest has flags.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// refusal is an answer that is no success.
func refusal(status int, body []byte) error {
	const most = 300
	return fmt.Errorf("%d: %s", status, body[:min(len(body), most)])
}
