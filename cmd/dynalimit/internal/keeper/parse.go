package keeper

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/dynalimit/dynalimit/budget"
)

// Span is a time in the file: 90s, 15m, 24h.
type Span time.Duration

// UnmarshalYAML reads it. Errors say where it stands.
func (s *Span) UnmarshalYAML(node ast.Node) error {
	d, err := time.ParseDuration(node.GetToken().Value)
	if err != nil {
		return &yaml.SyntaxError{Message: fmt.Sprintf("%q is no time: write it like 90s, 15m or 24h", node.GetToken().Value), Token: node.GetToken()}
	}
	*s = Span(d)
	return nil
}

// Micros is an amount in the file: whole µ$.
type Micros int64

// UnmarshalYAML reads it: a part of a µ$ is refused, not cut off.
func (m *Micros) UnmarshalYAML(node ast.Node) error {
	n, err := strconv.ParseInt(node.GetToken().Value, 10, 64)
	if err != nil {
		return &yaml.SyntaxError{Message: fmt.Sprintf("%q is no price: give whole µ$ per million tokens, such as 3000000", node.GetToken().Value), Token: node.GetToken()}
	}
	*m = Micros(n)
	return nil
}

// Metering in the file is its name.
type Metering budget.Metering

// UnmarshalYAML reads it.
func (m *Metering) UnmarshalYAML(node ast.Node) error {
	return named(node, (*budget.Metering)(m), "metering", budget.MeteringStrict, budget.MeteringBatch, budget.MeteringWindow, budget.MeteringNone)
}

// Policy in the file is its name.
type Policy budget.Policy

// UnmarshalYAML reads it.
func (p *Policy) UnmarshalYAML(node ast.Node) error {
	return named(node, (*budget.Policy)(p), "policy", budget.Refuse, budget.Allow)
}

// named reads one of some names, or an empty text. Errors say where it stands.
func named[T ~string](node ast.Node, to *T, field string, names ...T) error {
	*to = T(node.GetToken().Value)
	if *to != "" && !slices.Contains(names, *to) {
		return &yaml.SyntaxError{Message: fmt.Sprintf("%s is %q; write one of %q", field, *to, names), Token: node.GetToken()}
	}
	return nil
}

// Parse reads a configuration from YAML; what it leaves out is as in Default. A key that is none, or is there twice, and
// a second document are errors, which name the file, the line and the column.
func Parse(file string, text []byte) (Config, error) {
	c := Default()
	err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(&c)
	if errors.Is(err, io.EOF) { // nothing but comments
		return Default(), nil
	}
	if bad := yaml.Error(nil); errors.As(err, &bad) {
		at := ""
		if tk := bad.GetToken(); tk != nil && tk.Position != nil {
			at = fmt.Sprintf(":%d:%d", tk.Position.Line, tk.Position.Column)
		}
		return c, fmt.Errorf("%s%s: %s", file, at, misfit(text, bad))
	}
	if err != nil {
		return c, fmt.Errorf("%s: %w", file, err)
	}
	return c, oneDocument(file, text)
}

// oneDocument refuses a text with another document behind the first, which is all that is read.
func oneDocument(file string, text []byte) error {
	parsed, err := parser.ParseBytes(text, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for i, doc := range parsed.Docs {
		if i > 0 && doc.Body != nil && doc.Body.GetToken() != nil {
			at := cmp.Or(doc.Start, doc.Body.GetToken()).Position
			return fmt.Errorf("%s:%d:%d: a second document begins here: put all of it into one", file, at.Line, at.Column)
		}
	}
	return nil
}

// misfit says what is wrong, and of a value of the wrong kind which key has it, and what it
// has to be.
func misfit(text []byte, bad yaml.Error) string {
	want := ""
	switch e := bad.(type) {
	case *yaml.TypeError:
		want = map[reflect.Kind]string{reflect.Bool: "true or false", reflect.Slice: "sequence", reflect.Struct: "mapping", reflect.Map: "mapping"}[e.DstType.Kind()]
	case *yaml.UnexpectedNodeTypeError:
		want = e.Expected.YAMLName()
	}
	switch want {
	case "":
		return bad.GetMessage()
	case "sequence":
		want = "a list: write it like [one, two]"
	case "mapping":
		want = "a section: write its keys below it, each indented by two spaces"
	}
	return keyAt(text, bad.GetToken()) + " has to be " + want
}

// keyAt is the key of what stands at a token, with those above it: tls.cert.
func keyAt(text []byte, at *token.Token) string {
	file, err := parser.ParseBytes(text, 0)
	if err != nil || at == nil || at.Position == nil {
		return "the value"
	}
	f := &finder{at: at.Position.Offset}
	for _, doc := range file.Docs {
		ast.Walk(f, doc)
	}
	if f.path == "" || f.path == "$" {
		return "the file"
	}
	return strings.TrimPrefix(f.path, "$.")
}

// finder looks for the node that begins at an offset.
type finder struct {
	at   int
	path string
}

// Visit implements ast.Visitor.
func (f *finder) Visit(n ast.Node) ast.Visitor {
	if t := n.GetToken(); t != nil && t.Position != nil && t.Position.Offset == f.at {
		f.path = n.GetPath()
	}
	return f
}
