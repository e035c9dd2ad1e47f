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

// Unwrap gives http.ResponseController the writer below.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// finalStatus is the status that the client gets once the handler has returned.
func (w *watched) finalStatus() int {
	w.recordStatus(http.StatusOK)
	return w.status
}

// recordStatus keeps the first status that is not followed by another.
func (w *watched) recordStatus(status int) {
	if w.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
}

// WriteHeader notes the status.
func (w *watched) WriteHeader(status int) {
	w.recordStatus(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *watched) Write(p []byte) (int, error) {
	w.recordStatus(http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// ReadFrom keeps the copy of a file in the kernel.
func (w *watched) ReadFrom(r io.Reader) (int64, error) {
	w.recordStatus(http.StatusOK)
	return io.Copy(w.ResponseWriter, r)
}

// Flush is for handlers that look for an http.Flusher.
func (w *watched) Flush() { _ = w.FlushError() }

// FlushError implements the method of http.ResponseController.
func (w *watched) FlushError() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	if err == nil {
		w.recordStatus(http.StatusOK)
	}
	return err
}

// Hijack notes that the connection is the handler's now.
func (w *watched) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	w.hijacked = w.hijacked || err == nil
	return conn, rw, err
}
