package stacktest

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
)

// element is a part of an answer: a name with a text, or with elements.
type element struct {
	name  string
	text  string
	inner []element
}

func text(name string, value any) element { return element{name: name, text: fmt.Sprint(value)} }

func group(name string, inner ...element) element { return element{name: name, inner: inner} }

// list is a list as the protocol writes it.
func list[T any](name string, values []T, write func(T) element) element {
	e := element{name: name}
	for _, v := range values {
		m := write(v)
		m.name = "member"
		e.inner = append(e.inner, m)
	}
	return e
}

func (e element) write(b *strings.Builder) {
	if e.text == "" && len(e.inner) == 0 {
		return
	}
	b.WriteString("<" + e.name + ">")
	_ = xml.EscapeText(b, []byte(e.text)) // a builder takes everything
	for _, c := range e.inner {
		c.write(b)
	}
	b.WriteString("</" + e.name + ">")
}

const namespace = "http://cloudformation.amazonaws.com/doc/2010-05-15/"

func answer(w http.ResponseWriter, action string, inner []element) {
	var b strings.Builder
	fmt.Fprintf(&b, `<%sResponse xmlns="%s"><%sResult>`, action, namespace, action)
	for _, e := range inner {
		e.write(&b)
	}
	fmt.Fprintf(&b, `</%sResult><ResponseMetadata><RequestId>b9b4b068-3a41-11e5-94eb-example</RequestId></ResponseMetadata></%sResponse>`, action, action)
	w.Header().Set("Content-Type", "text/xml")
	_, _ = w.Write([]byte(b.String())) // a client that left gets nothing
}

// fault is an error of the API.
type fault struct {
	code, message string
	status        int
}

func (f *fault) Error() string { return f.code + ": " + f.message }

func invalid(format string, args ...any) *fault {
	return &fault{"ValidationError", fmt.Sprintf(format, args...), http.StatusBadRequest}
}

func (f *fault) answer(w http.ResponseWriter) {
	var b strings.Builder
	group("Error", text("Type", "Sender"), text("Code", f.code), text("Message", f.message)).write(&b)
	w.Header().Set("Content-Type", "text/xml")
	w.WriteHeader(f.status)
	fmt.Fprintf(w, `<ErrorResponse xmlns="%s">%s<RequestId>b9b4b068-3a41-11e5-94eb-example</RequestId></ErrorResponse>`, namespace, b.String())
}
