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
	none form = iota // it is no stream
	sse
	aws
	array // of JSON, Gemini's without alt=sse
)

// dialect writes answers as one API has them.
type dialect interface {
	// header sets what comes with each answer.
	header(h http.Header)
	// whole is the answer that is no stream.
	whole() any
	// events are those of the stream.
	events() []event
	// failure is the body of an error; it sets its header, too.
	failure(h http.Header) any
	// broken is the event that ends a stream with an error.
	broken() event
}

// event is one of a stream.
type event struct {
	name      string // "" if the dialect names none
	data      any
	exception bool // one of AWS
}

// billed is what the call costs.
func (a *reply) billed() Usage {
	if a.Status >= http.StatusMultipleChoices {
		return Usage{}
	}
	return a.u
}

// pieces are the text's.
func (a *reply) pieces() []string {
	all := []rune(a.Text)
	pieces := make([]string, a.Events)
	for i := range pieces {
		pieces[i] = string(all[i*len(all)/a.Events : (i+1)*len(all)/a.Events])
	}
	return pieces
}

// named is an id that is another one in each call.
func (a *reply) named(prefix string) string { return fmt.Sprintf("%s%012d", prefix, a.id) }

// told adds the usage under its key, if it is told.
func (a *reply) told(o object, key string, usage any) object {
	if !a.NoUsage {
		o[key] = usage
	}
	return o
}

// why is what an error says.
func (a *reply) why() string {
	return strings.TrimSpace("This error is by llmtest. " + cmp.Or(a.Error, a.Code))
}

// seconds are whole, and not too few.
func seconds(d time.Duration) string { return strconv.FormatFloat(math.Ceil(d.Seconds()), 'f', 0, 64) }

// fixed answers with one body, and has errors in a dialect.
type fixed struct {
	dialect
	body any
}

func (f fixed) whole() any { return f.body }

// counted answers how many tokens there are, which costs nothing.
func (a *reply) counted(errors dialect, body object) dialect {
	a.u, a.form = Usage{}, none
	return fixed{errors, body}
}
