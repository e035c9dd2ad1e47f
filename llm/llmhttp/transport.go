package llmhttp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/internal/problem"
	"github.com/dynalimit/dynalimit/internal/refusal"
	"github.com/dynalimit/dynalimit/llm"
	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/dialect"
)

// Transport limits the model calls among its requests. NewTransport makes it. It is safe for
// concurrent use.
type Transport struct {
	base   http.RoundTripper
	guard  *llm.Guard
	opts   Options
	pauses pauses
	open   open
	routes routes
}

// NewTransport makes a transport that limits model calls by guard and sends by base, http.DefaultTransport if
// base is nil. It sends no requests, and copies the options with their defaults. It fails with a
// *ValidationError.
func NewTransport(base http.RoundTripper, guard *llm.Guard, opts *Options) (*Transport, error) {
	if guard == nil {
		return nil, invalid("guard", "is nil; make one with llm.New(&llm.Options{Limiter: limiter})")
	}
	if base == nil {
		base = http.DefaultTransport
	}
	if problem.IsNil(base) {
		return nil, invalid("base", "is a nil pointer; give a transport, or nil for http.DefaultTransport")
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	return &Transport{base: base, guard: guard, opts: o, routes: routes{beside: guard.LimitsMoney(), allowed: o.AllowUnmetered, logger: o.Logger}}, nil
}

// Close settles open answers of ended requests, and waits for pending writes of pauses and the guard's pending
// settlements. If ctx ends before, it returns ctx's error. Answers that are still read stay open.
func (t *Transport) Close(ctx context.Context) error {
	if err := problem.CheckContext(ctx, "llmhttp"); err != nil {
		return err
	}
	t.open.settleEnded()
	return errors.Join(t.pauses.waitWritten(ctx), t.guard.Close(ctx))
}

// CloseIdleConnections closes the idle connections of the transport below, if that has such a method.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// RoundTrip makes one attempt of a call: it admits it, sends it, and returns an answer that settles it as it is
// read. A denial or another refusal is an answer, not an error; see Denial. Requests that are not metered calls
// pass unchanged, or get 404 beside a limit on money.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL == nil {
		return t.base.RoundTrip(r) // which fails
	}
	route, ok := dialect.Find(r.Method, r.URL.EscapedPath())
	caller, said := t.identifyCaller(r)
	switch known := caller.Entity != "" || caller.App != ""; {
	case !known && (said || ok && !route.Free):
		return ownAnswer(r, dialect.ErrorsOf(route, r), dialect.Refusal{Status: http.StatusUnauthorized, Message: "the caller is not known"}), nil
	case !ok && !t.routes.mayPass(r):
		return ownAnswer(r, dialect.ErrorsOf(route, r), dialect.Refusal{
			Status:  http.StatusNotFound,
			Message: "requests of this route are not metered, and money is limited here: Options.AllowUnmetered names routes that may pass",
		}), nil
	case !ok, route.Free:
		return t.base.RoundTrip(r)
	}
	a := &attempt{transport: t, route: route, request: r}
	if refusal := a.readRequest(); refusal != nil {
		return refusal, nil
	}
	if refusal, err := a.admitCall(caller); refusal != nil || err != nil {
		return refusal, err
	}
	return a.sendCall()
}

// attempt is one request on its way.
type attempt struct {
	transport *Transport
	route     dialect.Route
	request   *http.Request
	asked     *dialect.Request
	tools     map[string]int64 // of the provider's that were held, and their uses
	body      []byte           // that is sent
	model     string           // on the wire
	caller    refusal.Caller   // whose limits they are
	payer     string           // the caller's entity, or the app without one
	injected  bool             // the transport requested the usage for the caller
	call      *llm.Call
}

// readRequest reads the request's body into a, and changes it to request the usage of a stream unless the
// caller does. It returns nil, or the answer to a request that cannot be admitted: 400, 413 or 415.
func (a *attempt) readRequest() *http.Response {
	body, err := a.readBody()
	switch {
	case err != nil:
		return a.answerStatus(http.StatusBadRequest, "the request's body cannot be read: "+err.Error())
	case int64(len(body)) > a.transport.opts.MaxBody, a.request.ContentLength > a.transport.opts.MaxBody:
		return a.answerStatus(http.StatusRequestEntityTooLarge, "the request's body is too long")
	case a.route.Masks && isMasked(a.request):
		return a.answerStatus(http.StatusBadRequest, "an answer without its usage cannot be asked for here: leave out fields, callback and alt")
	case isEncoded(a.request.Header.Get("Content-Encoding")):
		return a.answerStatus(http.StatusUnsupportedMediaType, "the request's body is compressed; send it plain")
	}
	if a.asked, err = a.route.Read(body, a.request.Header); err != nil {
		return a.answerStatus(http.StatusBadRequest, "the request's body cannot be read: "+err.Error())
	}
	a.body = body
	a.model = a.asked.Model
	if a.route.Model != "" {
		a.model = a.route.Model
	}
	if a.route.Injects && a.asked.Stream && !a.asked.AsksUsage && !a.transport.opts.Count && !isSigned(a.request) {
		a.body, a.injected = injectUsage(body, a.asked), true
	}
	return nil
}

// maxGrown is the most memory allocated for a body before its bytes arrive.
const maxGrown = 128 << 10

// readBody returns the body and closes it. It stops one byte above MaxBody, and reads nothing if the given
// length is above it. It returns the body's error.
func (a *attempt) readBody() (_ []byte, err error) {
	if a.request.Body == nil {
		return nil, nil
	}
	var read bytes.Buffer
	if most := a.transport.opts.MaxBody; a.request.ContentLength <= most {
		read.Grow(int(min(max(a.request.ContentLength, 0), maxGrown)) + bytes.MinRead)
		_, err = read.ReadFrom(io.LimitReader(a.request.Body, most+1))
	}
	return read.Bytes(), errors.Join(err, a.request.Body.Close())
}

// admitCall waits for the end of a provider's pause and starts the guard's call, a.call. It returns nil for
// both if the call is admitted. Otherwise it returns the answer to the caller, or an error if the caller has
// left.
func (a *attempt) admitCall(caller Caller) (*http.Response, error) {
	model, known := a.transport.opts.Models.findModel(a.model)
	switch {
	case !known:
		return a.answerStatus(http.StatusNotFound, "the model "+quoteText(a.model)+" is not served here"), nil
	case !caller.mayUse(a.model):
		return a.answerStatus(http.StatusForbidden, "this caller may not use the model "+quoteText(a.model)), nil
	}
	a.caller = refusal.Caller{Entity: caller.Entity, Resource: model.Resource}
	a.payer = cmp.Or(caller.Entity, caller.Org+"/"+caller.App)
	if err := a.transport.pauses.awaitPause(a); err != nil {
		return a.answerRefused(err)
	}
	if caller.App != "" && model.Label == "" {
		return a.answerRefused(invalid("options.Models", "has no Label for %q, which the budget of a caller with an App needs", a.model))
	}
	var err error
	if a.call, err = a.transport.guard.Start(a.request.Context(), a.guardRequest(caller, model)); err != nil {
		return a.answerRefused(err)
	}
	return nil, nil //nolint:nilnil // admitted
}

// identifyCaller returns the caller of a request, empty if unknown or if Options.Identify fails. It returns
// false if Identify is not set and the request's context names no caller.
func (t *Transport) identifyCaller(r *http.Request) (c Caller, said bool) {
	if t.opts.Identify == nil {
		return CallerOf(r.Context())
	}
	c, err := t.opts.Identify(r)
	if err != nil {
		return Caller{}, true
	}
	return c, true
}

// guardRequest returns the guard's request for the read body and model, with the estimate of Options.Estimate
// if that is set. It stores the estimate's tools in a.
func (a *attempt) guardRequest(c Caller, m Model) llm.Request {
	asked, opts := a.asked, &a.transport.opts
	if a.route.AlwaysSearches(m.Priced) || a.route.AlwaysSearches(a.model) {
		asked.AddSearches()
	}
	e := llm.Estimate{
		InputTokens:     asked.Tokens + asked.Parts*opts.Unmetered,
		InputBytes:      int64(len(a.body)),
		AddedTokens:     (asked.Parts + dialect.MostResults(asked.Tools)) * opts.Unmetered,
		MaxOutputTokens: asked.MaxOutput,
		Choices:         asked.Choices,
		Sound:           asked.Sound,
		CacheHour:       asked.CacheHour,
		ServiceTier:     asked.Tier,
		Tools:           asked.Tools,
	}
	if e.ServiceTier == "" || e.ServiceTier == "auto" {
		e.ServiceTier = m.Tier
	}
	switch {
	case a.route.Embeds:
		e.MaxOutputTokens = 0
	case e.MaxOutputTokens == 0 && m.MaxOutput > 0:
		e.MaxOutputTokens = m.MaxOutput
	case e.MaxOutputTokens == 0:
		e.LikelyOutputTokens = likelyOutput * max(1, asked.Choices)
	}
	request := llm.Request{
		Entity: c.Entity, Resource: m.Resource, Model: m.Priced, Label: m.Label, Org: c.Org, App: c.App, Tags: c.Tags,
		Estimate: e, Wait: opts.Wait, Batch: isBatch(a.request.Context()), AcquireOptions: refusal.CallerOptions(nil, c.Parent, c.Plan, false),
	}
	if opts.Estimate != nil {
		request.Estimate = opts.Estimate(a.request, request)
	}
	a.tools = request.Estimate.Tools
	return request
}

// sendCall sends an admitted call and returns its answer with a body that settles the call. After an error it
// ends the call as failed, by whether it was sent, and returns the error. It frees the request's body once an
// answer has come.
func (a *attempt) sendCall() (*http.Response, error) {
	ctx := a.request.Context()
	out, on := a.outgoingRequest()
	res, err := a.transport.base.RoundTrip(out)
	if res == nil && err == nil {
		err = errNoAnswer
	}
	if err != nil {
		var o llm.Outcome
		if on.wasSent() {
			a.call.Sent()
			if a.asked.Background { // it goes on
				o.Status = http.StatusOK
			}
		}
		a.logUnsettled(ctx, a.call.Failed(ctx, o))
		return nil, err
	}
	a.call.Sent()
	on.releaseBody()
	a.body = nil
	if res.StatusCode == http.StatusSwitchingProtocols { // the transport cannot read the rest
		a.logUnsettled(ctx, a.call.Failed(ctx, llm.Outcome{Status: res.StatusCode}))
		return res, nil
	}
	if res.Body == nil {
		res.Body = http.NoBody
	}
	if res.Header == nil {
		res.Header = http.Header{}
	}
	res.Body = newAnswer(a, res)
	if a.transport.opts.Headers {
		showLimit(res.Header, a.caller, a.call.Lease().Statuses())
	}
	return res, nil
}

var errNoAnswer = errors.New("llmhttp: the wrapped transport returned neither a response nor an error")

// outgoingRequest returns the copy of the request to send, with a.body as its body, which can be read again,
// and the record of its writes. Unless signed, it has no Accept-Encoding, so that the transport below
// decompresses.
func (a *attempt) outgoingRequest() (out *http.Request, w *written) {
	body := a.body
	w = &written{}
	w.all.Store(&body)
	out = a.request.Clone(w.trace(a.request.Context()))
	out.GetBody = w.body
	out.Body, _ = w.body()
	out.ContentLength = int64(len(body))
	if len(body) == 0 {
		out.Body = http.NoBody
	}
	out.TransferEncoding = nil
	neverReplay(out.Header)
	if !isSigned(a.request) {
		out.Header.Del("Accept-Encoding") // the transport asks for gzip itself, and undoes it
	}
	return out, w
}

// neverReplay changes the headers in h, so that net/http does not repeat a request when its connection breaks:
// the provider might run and bill both. It spells Idempotency-Key in lower case, which net/http does not
// recognise.
func neverReplay(h http.Header) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = values
		}
	}
}

// logUnsettled logs the error of a failed settlement; nil does nothing.
func (a *attempt) logUnsettled(ctx context.Context, err error) {
	if err != nil {
		a.transport.opts.Logger.LogAttrs(ctx, slog.LevelError, "llmhttp: a call could not be settled",
			slog.String("request_id", a.call.RequestID), slog.Any("error", err))
	}
}

// injectUsage returns a copy of the body that requests the usage of a stream, also if the caller declines it.
// Unreported usage, such as hidden reasoning, would not be charged.
func injectUsage(body []byte, asked *dialect.Request) []byte {
	if no := asked.Declines; no.Len > 0 {
		return slices.Concat(body[:no.At], []byte(no.Instead), body[no.At+no.Len:])
	}
	at := int(asked.OptionsAt)
	add := `"include_usage":true`
	if at == 0 {
		at, add = bytes.IndexByte(body, '{')+1, `"stream_options":{`+add+`}`
	}
	rest := bytes.TrimLeft(body[at:], " \t\r\n")
	if len(rest) > 0 && rest[0] != '}' {
		add += ","
	}
	return slices.Concat(body[:at], []byte(add), body[at:])
}

// isMasked reports whether a request asks Google for a part of the answer, or for another form of it than JSON
// or server-sent events.
func isMasked(r *http.Request) bool {
	for name, values := range r.URL.Query() {
		switch strings.TrimPrefix(name, "$") {
		case "fields", "callback":
			return true
		case "alt":
			if slices.ContainsFunc(values, func(v string) bool { return v != "json" && v != "sse" }) {
				return true
			}
		}
	}
	return r.Header.Get("X-Goog-Fieldmask") != ""
}

// isSigned reports whether a request has an AWS signature over its headers and body (AWS4-…).
func isSigned(r *http.Request) bool {
	const scheme = "AWS4-"
	auth := r.Header.Get("Authorization")
	return len(auth) >= len(scheme) && auth[:len(scheme)] == scheme
}

// isEncoded reports whether the Content-Encoding with compresses the body. It is false for "", "identity" and
// "aws-chunked".
func isEncoded(with string) bool { return with != "" && with != "identity" && with != "aws-chunked" }
