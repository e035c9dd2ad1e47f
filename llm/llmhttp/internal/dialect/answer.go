package dialect

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/framing"
	"github.com/dynalimit/dynalimit/llm/llmhttp/internal/jsonscan"
)

// Said is the meaning of a value of an answer.
type Said uint8

// The meanings.
const (
	Input          Said = iota + 1
	CacheRead           // input that a cache gave
	CacheWrite          // input that a cache took, for however long
	CacheWriteHour      // the part of it that is kept for an hour or longer
	Output              // all of it
	OutputSoFar         // at the start of a stream
	MoreInput           // input beside Input, as a tool's
	MoreOutput          // output beside Output, as thoughts
	ToolInput           // input that no total has, of a tool with a model of its own
	ToolOutput          // output that no total has
	SoundInput          // the part of the input that was sound
	Searches            // uses of web search
	Query               // one of them, by its words
	Use                 // an item of the reply, which may be a use of a tool; of a list each list has all
	UseType             // its type
	UseName             // the tool's name, if the type does not name it
	UseAction           // the tool's action
	ServedTier          // the tier that served
	Traffic             // the same, as Vertex calls it
	ServedPlace         // where, or how fast, it did
	Piece               // a piece of a streamed reply
	Ended               // the end of the reply, or of one of several
	Total               // of all tokens
	Detail              // a detail of the input: starts a new one
	DetailKind          // its time in a cache, or its modality
	DetailTokens        // its tokens
	Iteration           // a part of the answer with a usage of its own: the values inside are its own
	IterationType       // its type
	IterationModel      // the model that made it
	ErrorName           // of an error: its type, code or status; all of several
	ErrorMessage        // its text
	ErrorStatus         // as a number
	RetryDelay          // when to come back, as "31s"
	EventType           // of an event of a stream
	EventCode           // the name of its error, if its type is error: others have a code, too
)

// Usage is the reported usage of an answer, by all models.
type Usage struct {
	Tokens
	Sound int64
	Tier  string
	Uses  map[string]int64 // of tools that are not free
	Runs  []Run            // of Tokens, those with a bill of their own
}

// Tokens are the tokens of the classes that have prices. Input excludes cache reads and writes.
type Tokens struct {
	Input, CacheRead, CacheWrite5m, CacheWrite1h, Output int64
}

// plus returns the sum of two token counts, class by class.
func (t Tokens) plus(u Tokens) Tokens {
	return Tokens{
		t.Input + u.Input, t.CacheRead + u.CacheRead, t.CacheWrite5m + u.CacheWrite5m, t.CacheWrite1h + u.CacheWrite1h, t.Output + u.Output,
	}
}

// Failure is an error in an answer.
type Failure struct {
	Names      []string
	Message    string        // the start of its text
	Status     int           // that it names as a number; 0 if none
	RetryDelay time.Duration // 0 if it names none
}

// Reader reads an answer as it passes. It keeps none of it, and never fails: it ignores unreadable
// bytes.
type Reader struct {
	dialect *Dialect
	into    interface{ Write(b []byte) (int, error) } // the framing, or the body's scanner
	stream  bool
	value   *jsonscan.Scanner // of the body, or of one event
	wrapped *jsonscan.Scanner // of an event's envelope
	base64  []byte            // what is left of a group of four
	line    []byte            // the start of an event: [DONE] is no JSON

	said       map[Said]int64
	tier       string
	failure    Failure
	failed     bool
	done       bool
	whole      bool // an event said so
	ended      bool // so is the reply; its usage may come behind it
	event      struct{ kind, code string }
	pieces     Text
	detail     detail
	place      string
	iteration  *iteration // that is read
	iterations iterations
	anew       bool // the next iteration is the first of a list
	queries    []string
	use        use
	uses       uses
}

// detail is one of the input that is read, and the sum of those of its list.
type detail struct {
	kind   string
	tokens int64
	sum    map[Said]int64
}

// NewReader returns a reader of an answer with headers h, and records the usage and error in them. The
// Content-Type selects a single body or a stream of events.
func (d *Dialect) NewReader(h http.Header) *Reader {
	r := &Reader{dialect: d, said: map[Said]int64{}}
	for name, said := range d.Headers {
		value := h.Get(name)
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && n >= 0 {
			r.recordCount(said, n)
		} else if value != "" {
			r.recordName(said, value)
		}
	}
	if name, _, _ := strings.Cut(h.Get(d.Shape.header), ":"); d.Shape.header != "" && name != "" {
		r.failed, r.failure.Names = true, []string{name}
	}
	r.value = jsonscan.New(d.tells, jsonscan.Options{Chunk: r.countPiece}, r.recordValue)
	switch kind, _, _ := strings.Cut(h.Get("Content-Type"), ";"); strings.TrimSpace(kind) {
	case "text/event-stream":
		r.stream, r.into = true, framing.NewSSE(r)
	case "application/vnd.amazon.eventstream":
		r.stream, r.into = true, framing.NewEventStream(r)
		if d.Enveloped {
			r.wrapped = jsonscan.New(envelope, jsonscan.Options{Chunk: r.readEnvelope}, func(jsonscan.Event) error { return nil })
		}
	default:
		r.into = r.value
	}
	return r
}

var envelope = jsonscan.Compile("bytes")

// Write reads a piece of the body. It takes all of it and never fails; after malformed framing it ignores the
// rest.
func (r *Reader) Write(b []byte) (int, error) {
	if r.into != nil {
		if _, err := r.into.Write(b); err != nil {
			r.into = nil
		}
	}
	return len(b), nil
}

// Begin prepares for an event of a stream: it drops the state of an event that broke off. The sums of earlier
// events stay.
func (r *Reader) Begin(framing.Head) {
	r.value.Reset()
	r.base64, r.line = r.base64[:0], r.line[:0]
	r.event.kind, r.event.code = "", ""
	r.iteration = nil // of one that broke off
	if r.wrapped != nil {
		r.wrapped.Reset()
	}
}

// Data reads a piece of an event's payload: JSON, or an envelope with JSON in base64. It keeps the first bytes,
// so that End recognises [DONE], which is no JSON.
func (r *Reader) Data(b []byte) {
	if n := len(done) - len(r.line); n > 0 {
		r.line = append(r.line, b[:min(n, len(b))]...)
	}
	if r.wrapped != nil {
		_, _ = r.wrapped.Write(b)
		return
	}
	_, _ = r.value.Write(b)
}

const done = "[DONE]"

// End completes an event. If the event announces the end of the stream or an error, the reader keeps that for
// Whole and Failure.
func (r *Reader) End(e framing.Head) {
	_ = r.value.Close()
	if string(r.line) == done {
		r.whole, r.ended = true, false
	}
	if e.Name != "" && e.Name == r.dialect.Last {
		r.whole = true
	}
	if e.Exception {
		r.markFailed(e.Name)
	}
	if r.event.kind == "error" {
		r.markFailed(r.event.code)
	}
}

// markFailed marks the answer as failed and appends an error's name to the failure's, which keeps the first 16.
func (r *Reader) markFailed(name string) {
	r.failed = true
	if len(r.failure.Names) < maxNames {
		r.failure.Names = append(r.failure.Names, name)
	}
}

const maxNames, maxQueries = 16, 1_000

// readEnvelope decodes a piece of an envelope's base64 and reads the JSON in it. It keeps an incomplete group
// of four for the next piece.
func (r *Reader) readEnvelope(_ int, b []byte) {
	for len(b) > 0 {
		n := min(len(b), 1024-len(r.base64))
		r.base64 = append(r.base64, b[:n]...)
		b = b[n:]
		groups := len(r.base64) / 4 * 4
		var out [768]byte
		n, _ = base64.StdEncoding.Decode(out[:], r.base64[:groups])
		_, _ = r.value.Write(out[:n])
		r.base64 = append(r.base64[:0], r.base64[groups:]...)
	}
}

// countPiece adds the tokens of a piece of text at a path of the answer to the count of the streamed reply. It
// ignores paths of other meanings.
func (r *Reader) countPiece(path int, b []byte) {
	if r.dialect.Answer[path].Said == Piece {
		r.pieces.Add(b)
	}
}

// recordValue records one value of the answer in r: a count, a name, or the beginning or end of a part. The
// dialect's table gives its meaning by its path. null is ignored, and the error is always nil.
func (r *Reader) recordValue(e jsonscan.Event) error {
	tell := r.dialect.Answer[e.Path]
	switch e.Kind {
	case jsonscan.Null:
		return nil
	case jsonscan.Object, jsonscan.Array:
		r.startPart(tell.Said, e.Kind)
		return nil
	case jsonscan.End:
		r.endPart(tell.Said)
		return nil
	}
	r.whole = r.whole || tell.Final
	switch tell.Said {
	case Piece: // countPiece counts it
		return nil
	case Ended:
		r.ended = true
		return nil
	}
	if e.Kind == jsonscan.String {
		r.recordName(tell.Said, string(e.Text))
	} else if n, err := e.Int(); err == nil {
		r.recordCount(tell.Said, n)
	}
	return nil
}

// recordName records a text in r by its meaning: a tier, a tool's use, an error or an event's type. An error's
// name also marks the answer as failed.
func (r *Reader) recordName(said Said, name string) {
	switch said {
	case ServedTier:
		if tier := mergeTier("", r.dialect.priceTier(name)); tier != "" && tier != "auto" {
			r.tier = tier
		}
	case Traffic:
		r.tier = cmp.Or(r.tier, trafficTier(name))
	case ServedPlace:
		r.place = mergePlace(r.place, name)
	case DetailKind:
		r.detail.kind = name
	case Query:
		if name != "" && len(r.queries) < maxQueries && !slices.Contains(r.queries, name) {
			r.queries = append(r.queries, name)
		}
	case UseType:
		r.use.kind = name
	case UseName:
		r.use.name = name
	case UseAction:
		r.use.action = name
	case IterationType, IterationModel:
		r.iteration.setName(said, name)
	case ErrorName:
		r.markFailed(name)
	case ErrorMessage:
		r.failure.Message = name
	case EventType:
		r.event.kind = name
	case EventCode:
		r.event.code = name
	case RetryDelay:
		r.failure.RetryDelay, _ = time.ParseDuration(name)
	}
}

// recordCount records a number in r by its meaning; an error's status also marks the answer as failed. Counts
// of an answer are cumulative, so the largest of repeated ones holds; in an iteration the last.
func (r *Reader) recordCount(said Said, n int64) {
	switch said {
	case DetailTokens:
		r.detail.tokens = n
	case ErrorStatus:
		r.failed, r.failure.Status = true, int(min(n, 999))
	default:
		if r.iteration != nil {
			r.iteration.said[said] = n
			return
		}
		r.said[said] = max(r.said[said], n)
	}
}

// startPart clears the state for a list of details, iterations or uses (kind Array), or for one element of it.
// Other meanings do nothing.
func (r *Reader) startPart(said Said, kind jsonscan.Kind) {
	switch {
	case said == Detail && kind == jsonscan.Array:
		r.detail = detail{sum: map[Said]int64{}}
	case said == Iteration && kind == jsonscan.Array:
		r.anew = true
	case said == Use && kind == jsonscan.Array:
		r.uses.list = nil
	case said == Detail:
		r.detail.kind, r.detail.tokens = "", 0
	case said == Iteration:
		if r.anew {
			r.iterations, r.anew = nil, false
		}
		r.iteration = &iteration{said: map[Said]int64{}}
	case said == Use:
		r.use = use{}
	}
}

// endPart adds a complete detail, tool use or iteration to the sums of the answer, and clears it. Other
// meanings do nothing.
func (r *Reader) endPart(said Said) {
	switch said {
	case Detail:
		r.detail.addToSum()
		for said, n := range r.detail.sum {
			r.said[said] = max(r.said[said], n)
		}
	case Use:
		r.uses.addUse(r.use.fee(r.dialect.Tools).Tool)
		r.use = use{}
	case Iteration:
		if it := r.iteration; it != nil {
			it.Tokens = r.dialect.tokens(it.said)
			r.iterations.addIteration(*it)
			r.iteration = nil
		}
	}
}

// addToSum adds the tokens of a detail of an hour's cache or of sound to the sum of its list, and ignores other
// kinds. It clears the detail.
func (d *detail) addToSum() {
	switch {
	case d.sum == nil:
	case d.kind == "1h":
		d.sum[CacheWriteHour] += d.tokens
	case d.kind == "AUDIO":
		d.sum[SoundInput] += d.tokens
	}
	d.kind, d.tokens = "", 0
}

// Close marks the end of the answer, for Usage and Whole. A single body that is not complete JSON, or malformed
// framing, does not count as ended. Do not call it for a stream that broke off.
func (r *Reader) Close() {
	if !r.stream && r.into != nil {
		r.done = r.value.Close() == nil
		return
	}
	r.done = r.into != nil
}

// Streams reports whether the answer is a stream of events.
func (r *Reader) Streams() bool { return r.stream }

// OwesUsage reports whether the reply of a stream has ended and its usage is still to come. It is false for a
// single body and after an error.
func (r *Reader) OwesUsage() bool {
	_, told := r.said[Output]
	return r.stream && r.ended && !told && !r.failed
}

// Failure returns the error in the answer, nil without one.
func (r *Reader) Failure() *Failure {
	if !r.failed {
		return nil
	}
	return &r.failure
}

// Usage returns the usage so far of a call on the route of, with the number of uses of each tool with a fee. It
// returns false unless the usage is complete: the answer has ended, or announced its end, and reported input
// and output.
func (r *Reader) Usage(of Route) (u Usage, whole bool) {
	u.Tier = tierAt(r.tier, r.place)
	u.Tokens = r.dialect.tokens(r.said)
	u.Sound = min(r.said[SoundInput], u.Input+u.CacheRead+u.CacheWrite5m+u.CacheWrite1h)
	u.Tokens, u.Runs = r.iterations.splitRuns(u.Tokens)
	search := r.said[Searches] + int64(len(r.queries))
	if of.OneSearch {
		search = min(search, 1)
	}
	u.Uses = r.uses.withSearches(search)
	_, output := r.said[Output]
	input := u.Input+u.CacheRead+u.CacheWrite5m+u.CacheWrite1h > 0 // there is no call without a prompt
	told := input && (output || of.Embeds || r.said[Total] > 0)
	return u, told && (r.done || r.whole)
}

// tokens returns the tokens of each class from the reported numbers by their meanings. A total above the sum
// of the parts adds unreported output, such as reasoning. A total that is less by exactly the thoughts shows
// that the output includes them. Any other total is ignored.
func (d *Dialect) tokens(said map[Said]int64) (t Tokens) {
	t.CacheRead, t.CacheWrite1h = said[CacheRead], said[CacheWriteHour]
	t.CacheWrite5m = max(0, said[CacheWrite]-t.CacheWrite1h)
	t.Input = said[Input] + said[MoreInput]
	output, told := said[Output]
	if !told {
		output = said[OutputSoFar]
	}
	sum, more := t.Input+output, said[MoreOutput]
	if d.Inclusive {
		t.Input = max(0, t.Input-t.CacheRead-t.CacheWrite5m-t.CacheWrite1h)
	} else {
		sum += t.CacheRead + t.CacheWrite5m + t.CacheWrite1h
	}
	switch total := said[Total]; {
	case total > sum+more:
		output += total - sum - more
	case total == sum && output >= more:
		more = 0
	}
	t.Input += said[ToolInput]
	t.Output = output + more + said[ToolOutput]
	return t
}

// Whole reports whether the answer has ended as it should: a stream by announcing its end, another by complete
// JSON.
func (r *Reader) Whole() bool { return r.whole || r.done && !r.stream }

// PieceTokens returns the approximate number of tokens of the streamed reply that have passed.
func (r *Reader) PieceTokens() int64 { return r.pieces.Tokens() }
