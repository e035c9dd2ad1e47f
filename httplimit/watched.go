package httplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// watched records the status of a handler's answer. It supports the methods of the writer below it,
// for http.ResponseController and for handlers that look for methods themselves.
type watched struct {
	http.ResponseWriter
	status   int // 0 before the header is written
	hijacked bool
}

// Unwrap returns the writer below, for http.ResponseController.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// finalStatus returns the status that the client gets after the handler has returned. It is 200 if the handler
// wrote none, and is then recorded.
func (w *watched) finalStatus() int {
	w.recordStatus(http.StatusOK)
	return w.status
}

// recordStatus stores the first final status: 101, or one of 200 or more. It ignores later ones and other
// informational ones.
func (w *watched) recordStatus(status int) {
	if w.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
}

// WriteHeader passes the status on. It records the first final one: 101, or one of 200 or more.
func (w *watched) WriteHeader(status int) {
	w.recordStatus(status)
	w.ResponseWriter.WriteHeader(status)
}

// Write records the status 200, unless another is recorded, and writes p.
func (w *watched) Write(p []byte) (int, error) {
	w.recordStatus(http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// ReadFrom records the status 200, unless another is recorded, and copies r to the writer below, which may copy
// a file within the kernel.
func (w *watched) ReadFrom(r io.Reader) (int64, error) {
	w.recordStatus(http.StatusOK)
	return io.Copy(w.ResponseWriter, r)
}

// Flush flushes the writer below and, if that succeeds, records the status 200 unless another is recorded. It
// drops the error, for handlers that look for an http.Flusher.
func (w *watched) Flush() { _ = w.FlushError() }

// FlushError flushes the writer below. If that succeeds, it records the status 200, unless another is recorded.
func (w *watched) FlushError() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if err == nil {
		w.recordStatus(http.StatusOK)
	}
	return err
}

// Hijack hands the connection over to the handler. It then records that, because a hijacked request is not
// refunded. It fails if the writer below cannot.
func (w *watched) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.hijacked = w.hijacked || err == nil
	return conn, rw, err
}
