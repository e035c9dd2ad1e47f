package llmtest

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// object is a JSON object, raw a text that is none.
type (
	object map[string]any
	raw    string
)

// reply is an answer to one request.
type reply struct {
	Answer
	asked object // the request's body
	id    int    // counts the calls
	u     Usage
	form  form
}

// form is how events are put into a stream.
type form int

const (
	none form = iota // not a stream
	sse
	aws
	array // of JSON, Gemini's without alt=sse
)

// dialect writes answers in the form of one API.
type dialect interface {
	// header sets the header of each answer.
	header(h http.Header)
	// wholeBody is the answer without streaming.
	wholeBody() any
	// events are those of the stream.
	events() []event
	// errorBody is the body of an error; it sets its header, too.
	errorBody(h http.Header) any
	// brokenEvent is the event that ends a stream with an error.
	brokenEvent() event
}

// event is one of a stream.
type event struct {
	name      string // "" if the dialect names none
	data      any
	exception bool // one of AWS
}

// billed returns the usage that the call costs, in tokens, also if it is not reported. It is zero for a status
// of 300 or more.
func (a *reply) billed() Usage {
	if a.Status >= http.StatusMultipleChoices {
		return Usage{}
	}
	return a.u
}

// pieces returns the text split into Events pieces of about equal length.
func (a *reply) pieces() []string {
	all := []rune(a.Text)
	pieces := make([]string, a.Events)
	for i := range pieces {
		pieces[i] = string(all[i*len(all)/a.Events : (i+1)*len(all)/a.Events])
	}
	return pieces
}

// newID returns the prefix with the number of the call, 12 digits: the same id for each use in one call.
func (a *reply) newID(prefix string) string { return fmt.Sprintf("%s%012d", prefix, a.id) }

// addUsage sets the usage in o under its key, in place, unless NoUsage is set, and returns o.
func (a *reply) addUsage(o object, key string, usage any) object {
	if !a.NoUsage {
		o[key] = usage
	}
	return o
}

// errorText returns the message of a scripted error, with its name.
func (a *reply) errorText() string {
	return strings.TrimSpace("This error is by llmtest. " + cmp.Or(a.Error, a.Code))
}

// seconds returns a duration in whole seconds, rounded up, as text.
func seconds(d time.Duration) string { return strconv.FormatFloat(math.Ceil(d.Seconds()), 'f', 0, 64) }

// fixed answers with one body, and has errors in a dialect.
type fixed struct {
	dialect
	body any
}

// wholeBody returns the fixed body.
func (f fixed) wholeBody() any { return f.body }

// newCountDialect returns the dialect that answers with body, a number of tokens. It sets the reply's usage to
// zero, because the call costs nothing. Its errors are those of the given dialect.
func (a *reply) newCountDialect(errors dialect, body object) dialect {
	a.u, a.form = Usage{}, none
	return fixed{errors, body}
}
