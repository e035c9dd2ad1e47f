package budgethttp

import (
	"cmp"
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/page"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
)

// document is the OpenAPI document of the added endpoints.
type document struct {
	api  huma.API
	gate *gate
}

var errorType = reflect.TypeFor[wire.Error]()

// addEndpoint serves an endpoint on all its paths, and documents the first path.
func (d *document) addEndpoint(e endpoint) {
	for i, path := range e.allPaths() {
		e.bind(d.api, d.newOperation(e.route, path, i > 0), d.gate.answers.errorResponse)
	}
	d.addExamples(e.route)
}

// newOperation returns the documented operation of a route at a path, with the gate as
// middleware. With hidden the document leaves it out.
func (d *document) newOperation(r route, path string, hidden bool) huma.Operation {
	op := huma.Operation{
		OperationID: r.id, Method: r.method, Path: path, Hidden: hidden, Tags: []string{r.tag},
		Summary: r.summary, Description: r.description, DefaultStatus: r.status,
		SkipValidateBody: r.unread, RejectUnknownQueryParameters: r.needs != nobody,
		Metadata:        map[string]any{invalidKey: r.invalid},
		BodyReadTimeout: -1, // the gate reads the body before huma does
		MaxBodyBytes:    -1,
		Middlewares:     huma.Middlewares{d.gate.middleware(r)},
		Responses:       map[string]*huma.Response{},
	}
	for _, status := range r.errorStatuses() {
		op.Responses[strconv.Itoa(status)] = d.errorResponse(http.StatusText(status))
	}
	op.Responses["default"] = d.errorResponse("Any other error")
	switch r.needs {
	case bearer:
		op.Security = []map[string][]string{{"token": {}}}
	case provider:
		op.Security = []map[string][]string{{"key": {}}}
	case retriever:
		op.Security = []map[string][]string{{}, {"key": {}}}
	}
	return op
}

// errorResponse returns the documented response of an error, with the common schema.
func (d *document) errorResponse(description string) *huma.Response {
	return &huma.Response{
		Description: description,
		Content:     map[string]*huma.MediaType{"application/json": {Schema: d.api.OpenAPI().Components.Schemas.Schema(errorType, true, "Error")}},
	}
}

// addExamples sets the examples of a route's request and response in the document. It also documents the
// route's second success status, if it has one.
func (d *document) addExamples(r route) {
	op := operationOf(d.api.OpenAPI().Paths[r.allPaths()[0]], r.method)
	if r.request != nil {
		op.RequestBody.Content["application/json"].Example = r.request
	}
	success := op.Responses[strconv.Itoa(cmp.Or(r.status, http.StatusOK))]
	if r.response != nil {
		success.Content["application/json"].Example = r.response
	}
	if r.also != 0 {
		other := *success
		other.Description = http.StatusText(r.also)
		op.Responses[strconv.Itoa(r.also)] = &other
	}
}

// operationOf returns the operation of a path for POST, PUT or DELETE, and that of GET for any
// other method. It is nil if the path has none.
func operationOf(item *huma.PathItem, method string) *huma.Operation {
	switch method {
	case http.MethodPost:
		return item.Post
	case http.MethodPut:
		return item.Put
	case http.MethodDelete:
		return item.Delete
	}
	return item.Get
}

// renderDocument returns the OpenAPI document as indented JSON, and as an HTML page for people. It fails if
// either cannot be made.
func (d *document) renderDocument() (document, readable []byte, err error) {
	if document, err = json.MarshalIndent(d.api.OpenAPI(), "", "  "); err != nil {
		return nil, nil, err
	}
	readable, err = page.Render(document)
	return document, readable, err
}
