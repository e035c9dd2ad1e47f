// Package page renders an OpenAPI document as an HTML page, without scripts or external
// resources.
package page

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"
	"maps"
	"slices"
	"strings"
)

//go:embed page.html
var source string

// Policy is the page's Content-Security-Policy.
const Policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// document is the part of an OpenAPI document that the page shows.
type document struct {
	Info       struct{ Title, Version, Description string }
	Tags       []*group
	Paths      map[string]map[string]*operation
	Components struct {
		Schemas map[string]*schema
	}
}

type operation struct {
	OperationID string `json:"operationId"`
	Summary     string
	Description string
	Tags        []string
	Security    []map[string][]string
	Parameters  []struct {
		Name, In, Description string
		Required              bool
		Schema                schema
	}
	RequestBody *body
	Responses   map[string]*body

	Method, Path string `json:"-"`
}

type body struct {
	Description string
	Content     map[string]struct {
		Schema  schema
		Example json.RawMessage
	}
}

type schema struct {
	Ref                  string `json:"$ref"`
	Type                 any
	Format, Pattern      string
	Description          string
	Enum                 []any
	Items                *schema
	Properties           map[string]*schema
	Required             []string
	AdditionalProperties json.RawMessage
	Minimum, Maximum     *float64
	MaxLength            *int
}

// group is the operations of one tag.
type group struct {
	Name, Description string
	Operations        []*operation `json:"-"`
}

// Render returns the HTML page of an OpenAPI document, given as JSON. It fails for malformed JSON.
func Render(openapi []byte) ([]byte, error) {
	var d document
	if err := json.Unmarshal(openapi, &d); err != nil {
		return nil, err
	}
	t, err := template.New("page").Funcs(template.FuncMap{
		"type": typeName, "json": indentJSON, "upper": strings.ToUpper, "credential": credentialText, "needed": slices.Contains[[]string],
	}).Parse(source)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, map[string]any{"Info": d.Info, "Groups": groupOperations(d), "Schemas": d.Components.Schemas})
	return out.Bytes(), err
}

var methods = []string{"get", "post", "put", "delete"}

// groupOperations sorts the operations into groups by their first tag, in the document's order of tags, and
// sets their methods and paths. Unknown tags come last; empty groups are left out.
func groupOperations(d document) []*group {
	out := d.Tags
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range methods {
			op := d.Paths[path][method]
			if op == nil {
				continue
			}
			op.Method, op.Path = method, path
			name := "other"
			if len(op.Tags) > 0 {
				name = op.Tags[0]
			}
			i := slices.IndexFunc(out, func(g *group) bool { return g.Name == name })
			if i < 0 {
				i, out = len(out), append(out, &group{Name: name})
			}
			out[i].Operations = append(out[i].Operations, op)
		}
	}
	return slices.DeleteFunc(out, func(g *group) bool { return len(g.Operations) == 0 })
}

// typeName returns a few words about a schema, or a pointer to one, and "" for any other value.
func typeName(s any) string {
	switch s := s.(type) {
	case schema:
		return typeOf(&s)
	case *schema:
		return typeOf(s)
	}
	return ""
}

// typeOf returns a few words about a schema: "list of string", "one of ok, degraded", or the type with its
// format. For a reference it returns the name of the referenced schema.
func typeOf(s *schema) string {
	if s.Ref != "" {
		return s.Ref[strings.LastIndex(s.Ref, "/")+1:]
	}
	name, _ := s.Type.(string)
	switch {
	case s.Items != nil:
		return "list of " + typeOf(s.Items)
	case len(s.Enum) > 0:
		var values []string
		for _, v := range s.Enum {
			if text, ok := v.(string); ok {
				values = append(values, text)
			}
		}
		return "one of " + strings.Join(values, ", ")
	case s.Format != "":
		return name + ", " + s.Format
	}
	return name
}

// indentJSON returns JSON with indentation, or the text unchanged if it is not JSON.
func indentJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// credentialText returns a text about the credential that an operation needs, by the first of its security
// requirements.
func credentialText(security []map[string][]string) string {
	switch {
	case len(security) == 0:
		return "no credential"
	case len(security[0]) == 0:
		return "the retrieval token alone"
	}
	if _, ok := security[0]["key"]; ok {
		return "a provisioning key, in X-API-Key"
	}
	return "an access token, as Authorization: Bearer"
}
