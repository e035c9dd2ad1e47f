package llmhttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/dialect"
	"github.com/dynalimit/dynalimit/prices"
)

// answer is the body of an answer. It reads the usage as bytes pass, and settles the call once:
// before its reader gets the end, at its close, or at the end of the request's context.
type answer struct {
	io.ReadCloser
	attempt *attempt
	ctx     context.Context //nolint:containedctx // of the request, which the body belongs to
	status  int
	says    says
	stop    func() bool

	mu      sync.Mutex // never held while the call is settled
	reader  *dialect.Reader
	plain   *plain // undoes a compression beside the stream; nil if there is none
	ended   bool
	settled chan struct{} // closed when the call is settled
}

// newAnswer wraps the body of an answer so that reading or closing it settles the call, and so does the end of
// the request's context. If the transport requested the usage for the caller, it also removes the usage's event
// and the response's Content-Length. Transport.Close finds the answer until it has ended.
func newAnswer(a *attempt, res *http.Response) io.ReadCloser {
	b := &answer{
		ReadCloser: res.Body, attempt: a, ctx: a.request.Context(), status: res.StatusCode, says: readLimitTimes(res.Header, time.Now()),
		reader: a.route.NewReader(res.Header), settled: make(chan struct{}),
	}
	b.plain = newPlain(res.Header.Get("Content-Encoding"), b.reader)
	b.mu.Lock() // the context may have ended, and Transport.Close may settle open answers
	a.transport.open.addReading(b)
	b.stop = context.AfterFunc(b.ctx, b.settleIfLeft)
	b.mu.Unlock()
	if a.injected && b.reader.Streams() && b.plain == nil {
		res.Header.Del("Content-Length")
		res.ContentLength = -1
		return &without{body: b}
	}
	return b
}

// Read returns arrived bytes unchanged and reads the usage in them. At the end or an error of the body it
// settles the call before it returns.
func (b *answer) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.readPassed(p[:n])
	}
	if err != nil {
		b.endAnswer(err)
	}
	return n, err
}

// readPassed reads the usage in bytes that were passed on, after decompression if they are compressed. It
// ignores bytes after the answer has ended.
func (b *answer) readPassed(passed []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.plain.write(b.reader, passed)
	}
}

// Close closes the body and settles the call, also of an answer that was not read to its end. A client that
// leaves after the last token has not read the usage, which alone shows hidden reasoning: Close reads it. It
// returns the body's error.
func (b *answer) Close() error {
	closed := sync.OnceValue(b.ReadCloser.Close)
	b.readUsage(closed)
	err := closed()
	b.endAnswer(errClosed)
	return err
}

// The usage comes right behind the last token. These bound Close's wait and read for it.
const (
	usageWait = 250 * time.Millisecond
	usageSize = 64 << 10
)

// readUsage reads and drops the rest of an ended reply until its usage has arrived, at most 64 KiB. After 250
// ms it calls closed, which closes the body and so ends the read. It does nothing unless the usage is still to
// come.
func (b *answer) readUsage(closed func() error) {
	if !b.owesUsage() {
		return
	}
	defer time.AfterFunc(usageWait, func() { _ = closed() }).Stop()
	var buf [4 << 10]byte
	for read := 0; read < usageSize && b.owesUsage(); {
		n, err := b.Read(buf[:])
		if err != nil {
			return
		}
		read += n
	}
}

// owesUsage reports whether the reply has ended and its usage is still to come. It is false after the call is
// settled, and for a compressed stream, which is read with a delay.
func (b *answer) owesUsage() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.ended && b.plain == nil && b.reader.OwesUsage()
}

var errClosed = errors.New("llmhttp: the answer was closed before its end")

// settleIfLeft settles the call if its request's context has ended; otherwise it does nothing. It logs a panic
// instead of passing it on, because its goroutine has no other owner.
func (b *answer) settleIfLeft() {
	if err := b.ctx.Err(); err != nil {
		guard.Call(func() { b.endAnswer(err) }, func(e *guard.Ended) { // the goroutine has no other owner
			b.attempt.transport.opts.Logger.Error("llmhttp: the end of an answer did not return", "cause", e, "stack", string(e.Stack))
		})
	}
}

// endAnswer settles the call by the usage so far, once, and pauses calls if the answer says stop. A concurrent
// call waits for the first. It logs a failed settlement; cause is the reason that reading ended.
func (b *answer) endAnswer(cause error) {
	if b.markEnded() {
		<-b.settled
		return
	}
	defer close(b.settled)
	defer b.attempt.transport.open.removeReading(b)
	b.stop()
	b.plain.close()
	if cause == io.EOF || !b.reader.Streams() { //nolint:errorlint // readers return it as it is; JSON says itself whether it is whole
		b.reader.Close()
	}
	b.attempt.logUnsettled(b.ctx, b.settleCall())
	b.attempt.transport.pauseRefused(b.attempt, b.status, b.says, b.reader.Failure())
}

// markEnded marks the answer as ended, and returns true if it had ended before.
func (b *answer) markEnded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	had := b.ended
	b.ended = true
	return had
}

// settleCall settles the call at the usage if that is complete, else by its outcome: status, failure, or the
// tokens counted so far. It writes the settlement in the background and returns the guard's error. An
// impossible usage counts as incomplete.
func (b *answer) settleCall() error {
	call, route := b.attempt.call, b.attempt.route
	usage, whole := b.reader.Usage(route)
	failure := b.reader.Failure()
	if whole && b.status < 300 {
		told := b.attempt.guardUsage(usage)
		if failure != nil {
			told.Status = llm.StatusError
		}
		err := call.SettleSoon(b.ctx, told)
		if unsettled := (*llm.UnsettledError)(nil); err == nil || errors.As(err, &unsettled) {
			return err
		} // else the usage cannot be
	}
	o := llm.Outcome{Status: b.status, Counts: route.Counts}
	if b.status >= 300 || !b.reader.Streams() || b.plain.isUnreadable() || b.attempt.asked.Background && failure == nil {
		o.Processed = route.Shape.BillsPrompt(failure)
		return call.Failed(b.ctx, o)
	}
	if failure != nil {
		o.Event = max(route.Shape.StatusOf(failure), http.StatusBadRequest)
	}
	o.Cut = failure == nil && !b.reader.Whole()
	usage.Output = max(usage.Output, b.reader.PieceTokens())
	call.Meter().Add(prices.Tokens(usage.Tokens))
	if !o.Cut && failure == nil {
		return call.Meter().Close(context.WithoutCancel(b.ctx))
	}
	return call.Failed(b.ctx, o)
}

// guardUsage converts a usage of an answer to the guard's, with the uses of tools that have a fee and each
// part's priced model. It leaves Status and Time empty.
func (a *attempt) guardUsage(u dialect.Usage) llm.Usage {
	usage := llm.Usage{
		Tokens: prices.Tokens(u.Tokens), SoundTokens: u.Sound, ServiceTier: u.Tier, Tools: a.route.ChargedUses(u.Uses, a.tools),
	}
	for _, p := range u.Runs {
		part := llm.Part{Tokens: prices.Tokens(p.Tokens)}
		if p.Model != "" && p.Model != a.model {
			model, _ := a.transport.opts.Models.findModel(p.Model)
			part.Model = model.Priced
		}
		usage.Parts = append(usage.Parts, part)
	}
	return usage
}
