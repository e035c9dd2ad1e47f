package llmhttp

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"strings"

	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/dialect"
)

// plain decompresses an answer beside its stream, for the usage reader alone.
type plain struct {
	in    *io.PipeWriter
	done  chan struct{}
	blind bool // nothing of the answer could be read
}

// newPlain starts a goroutine that decompresses the written bytes for to, the reader of the usage; close ends
// it. It returns nil for an uncompressed answer. An unknown encoding makes isUnreadable true.
func newPlain(encoding string, to *dialect.Reader) *plain {
	var open func(io.Reader) (io.Reader, error)
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
		open = func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
	case "deflate":
		open = inflate
	default:
		open = func(io.Reader) (io.Reader, error) { return nil, errors.ErrUnsupported }
	}
	out, in := io.Pipe()
	p := &plain{in: in, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		defer out.CloseWithError(io.ErrClosedPipe)
		guard.Call(func() {
			r, err := open(out)
			if err == nil {
				_, _ = io.Copy(onlyWriter{to}, r) // what is read until an error counts
			}
			p.blind = err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
		}, func(*guard.Ended) { p.blind = true })
	}()
	return p
}

// inflate returns a reader of decompressed bytes. It accepts zlib, as RFC 9110 defines deflate, and the bare
// format that some servers send. It fails for a malformed header of zlib.
func inflate(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	if head, err := b.Peek(2); err == nil && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(b)
	}
	return flate.NewReader(b), nil
}

type onlyWriter struct{ io.Writer }

// write passes arrived bytes to to, the reader of the usage. If p is not nil, p decompresses them first.
func (p *plain) write(to *dialect.Reader, b []byte) {
	if p == nil {
		_, _ = to.Write(b)
		return
	}
	_, _ = p.in.Write(b)
}

// close ends the input of the decompression, and waits until the reader of the usage has all written bytes. It
// does nothing if p is nil.
func (p *plain) close() {
	if p != nil {
		_ = p.in.Close()
		<-p.done
	}
}

// isUnreadable reports, after close, whether the answer could not be decompressed at all. It is false for a nil
// p and for an answer that broke off.
func (p *plain) isUnreadable() bool { return p != nil && p.blind }
