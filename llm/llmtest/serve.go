package llmtest

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// contentTypes are those of streams.
var contentTypes = map[form]string{
	none: "application/json", sse: "text/event-stream; charset=utf-8", aws: "application/vnd.amazon.eventstream", array: "application/json",
}

// serve waits for Delay and writes the scripted answer to w. It returns an error if the client went away, and
// panics with http.ErrAbortHandler if the script cuts the answer.
func (a served) serve(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	if err := pauseFor(ctx, a.Delay); err != nil {
		return err
	}
	if a.CutAfter < 0 {
		panic(http.ErrAbortHandler)
	}
	status := cmp.Or(a.Status, http.StatusOK)
	if status >= http.StatusMultipleChoices || a.Body != "" {
		a.form = none
	}
	h := w.Header()
	h.Set("Content-Type", contentTypes[a.form])
	a.header(h)
	var body []byte
	switch {
	case a.form != none:
	case a.Body != "":
		body = []byte(a.Body)
	case status >= http.StatusBadRequest:
		body = encodeJSON(a.errorBody(h))
	case status < http.StatusMultipleChoices:
		body = encodeJSON(a.wholeBody())
	}
	if a.form == none {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	for name, values := range a.Header {
		h[http.CanonicalHeaderKey(name)] = values
	}
	to := newOutlet(w, a.Gzip && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"), status)
	if a.form != none {
		return a.serveEvents(ctx, to)
	}
	return a.serveWhole(ctx, to, body)
}

// serveWhole waits for Hold and writes a single body. With CutAfter it writes half and panics with
// http.ErrAbortHandler. It returns an error if the client went away.
func (a served) serveWhole(ctx context.Context, to *outlet, body []byte) error {
	if err := awaitHold(ctx, a.Hold); err != nil {
		return err
	}
	if a.CutAfter > 0 {
		_ = to.writePiece(body[:len(body)/2]) // it breaks off in any case
		panic(http.ErrAbortHandler)
	}
	err := to.writePiece(body)
	to.closeZip()
	return err
}

// serveEvents writes the events of a stream with the script's delays, and a scripted error in place of the
// rest. After CutAfter events it panics with http.ErrAbortHandler. It returns an error if the client went away.
func (a served) serveEvents(ctx context.Context, to *outlet) error {
	events := a.events()
	if a.Error != "" {
		events = append(events[:min(max(a.ErrorAfter, 0), len(events))], a.brokenEvent())
	}
	for i, e := range events {
		last := i == len(events)-1
		if i > 0 {
			if err := pauseFor(ctx, a.Between); err != nil {
				return err
			}
		}
		if last {
			if err := awaitHold(ctx, a.Hold); err != nil {
				return err
			}
		}
		b := a.frameEvent(e, i == 0, last)
		if err := to.writePiece(b); err != nil {
			return err
		}
		if i+1 == a.CutAfter {
			panic(http.ErrAbortHandler)
		}
	}
	to.closeZip()
	return nil
}

// encodeJSON returns the JSON of v. A v of type raw is returned unchanged, as it is. It panics if v cannot be
// encoded.
func encodeJSON(v any) []byte {
	if text, ok := v.(raw); ok {
		return []byte(text)
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // objects of texts and numbers
	}
	return b
}

// frameEvent returns an event as bytes of the stream's form: a frame of AWS, an element of an array, or SSE.
// The flags mark the first and the last event of the stream. WrongCRC spoils the last frame's checksum.
func (a served) frameEvent(e event, first, last bool) []byte {
	b := encodeJSON(e.data)
	switch a.form {
	case aws:
		b = encodeFrame(e, b)
		if last && a.WrongCRC {
			b[len(b)-1] ^= 1
		}
		return b
	case array:
		start, end := ",\r\n", ""
		if first {
			start = "["
		}
		if last {
			end = "\n]\n"
		}
		return []byte(start + string(b) + end)
	default:
		var text bytes.Buffer
		if e.name != "" {
			text.WriteString("event: " + e.name + "\n")
		}
		text.WriteString("data: ")
		text.Write(b)
		text.WriteString("\n\n")
		return text.Bytes()
	}
}

// outlet is the destination of an answer.
type outlet struct {
	to    io.Writer
	zip   *gzip.Writer // nil if it is not compressed
	flush func() error
}

// newOutlet writes the status and header of an answer and returns the writer of its body. With compress it adds
// the headers of gzip, and the writer compresses.
func newOutlet(w http.ResponseWriter, compress bool, status int) *outlet {
	o := &outlet{to: w, flush: http.NewResponseController(w).Flush}
	if compress {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Del("Content-Length")
		o.zip = gzip.NewWriter(w)
		o.to = o.zip
	}
	w.WriteHeader(status)
	return o
}

// writePiece sends a piece, compressed if the outlet compresses, and flushes it at once.
func (o *outlet) writePiece(b []byte) error {
	_, err := o.to.Write(b)
	if err == nil && o.zip != nil {
		err = o.zip.Flush()
	}
	if err == nil {
		err = o.flush()
	}
	return err
}

// closeZip completes a compressed answer. It ignores errors: a client may have left with enough.
func (o *outlet) closeZip() {
	if o.zip != nil {
		_ = o.zip.Close()
	}
}

// pauseFor waits for d or the end of ctx, and returns ctx's error if that comes first. It returns at once if d
// is not positive.
func pauseFor(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	return awaitHold(ctx, timer.C)
}

// awaitHold waits until the channel has a value or is closed, or for the end of ctx, and returns ctx's error if
// that comes first. With a nil channel it returns at once, with ctx's error if ctx has ended.
func awaitHold[T any](ctx context.Context, until <-chan T) error {
	if until == nil {
		return ctx.Err()
	}
	select {
	case <-until:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
