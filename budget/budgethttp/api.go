package budgethttp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/strict"
	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
)

// tags are what routes are about, in the order in which a client meets them.
var tags = []*huma.Tag{
	{Name: "authentication", Description: "Tokens for a client's id and secret."},
	{Name: "selection", Description: "Before a call: which model to use, and what it would cost."},
	{Name: "usage", Description: "After a call: what it cost."},
	{Name: "aggregates", Description: "What was spent."},
	{Name: "administration", Description: "What organisations and apps may spend, by whoever has a provisioning key."},
	{Name: "credentials", Description: "What clients log in with."},
	{Name: "service", Description: "Whether there is one."},
}

var errorType = reflect.TypeFor[wire.Error]()

// newAPI makes the API without any route. Nothing of huma's is changed for the rest of the
// process: its errors are turned into ours by a transformer.
func (s *Server) newAPI() huma.API {
	server := cmp.Or(s.opts.Prefix, "/")
	return humago.New(s.mux, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Budget keeper", Version: "1",
				Description: "Keeps what LLM calls cost within daily budgets: which model an app may use now, what a call cost, what was spent. Amounts are in millionths of a dollar.",
			},
			Servers: []*huma.Server{{URL: server}},
			Tags:    tags,
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"token": {Type: "http", Scheme: "bearer", BearerFormat: "JWT", Description: "An access token"},
					"key":   {Type: "apiKey", In: "header", Name: "X-API-Key", Description: "A provisioning key, of all organisations or of one"},
				},
			},
		},
		Formats: map[string]huma.Format{
			"application/json":         {Marshal: marshal, Unmarshal: unmarshal},
			"application/problem+json": {Marshal: marshal, Unmarshal: unmarshal}, // huma's errors, until shape has seen them
		},
		DefaultFormat: "application/json",
		Transformers:  []huma.Transformer{s.shape},
	})
}

func (s *Server) schema(t reflect.Type, hint string) *huma.Schema {
	return s.api.OpenAPI().Components.Schemas.Schema(t, true, hint)
}

// marshal writes an answer whole. A client that is gone is nobody's mistake.
func marshal(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, _ = w.Write(b.Bytes())
	return nil
}

// unmarshal reads a body, first without a type, for its schema, then with one.
func unmarshal(data []byte, v any) error {
	switch v := v.(type) {
	case *any:
		if err := strict.Check(data); err != nil {
			return err
		}
		return json.Unmarshal(data, v)
	case *wire.Batch: // what is wrong with one of its records is no matter of the others
		return strict.UnmarshalApart(data, v, "records")
	}
	return strict.Unmarshal(data, v)
}

// shape gives every error its one shape, and stamps it.
func (s *Server) shape(ctx huma.Context, _ string, v any) (any, error) {
	x := exchangeOf(ctx.Context())
	switch e := v.(type) {
	case *wire.Error:
		s.stamp(x, e)
	case *huma.ErrorModel:
		ctx.SetHeader("Content-Type", "application/json")
		found := make([]error, len(e.Errors))
		for i, d := range e.Errors {
			found[i] = d
		}
		out := refused(e.Status, e.Detail, found)
		if code, ok := ctx.Operation().Metadata[invalidKey].(wire.Code); ok && code != "" && e.Status == http.StatusUnprocessableEntity {
			out.Code = code
		}
		s.stamp(x, out)
		return out, nil
	}
	return v, nil
}

const (
	maxFields = 16  // fields at fault that are told
	maxText   = 200 // bytes of a field's name, which the client may have chosen
)

// refused is what huma found wrong with a request. Values are not sent back.
func refused(status int, message string, found []error) *wire.Error {
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	if status >= http.StatusInternalServerError {
		return wire.NewError(status, wire.InternalError, "something went wrong; the log has it under this request_id")
	}
	var fields []wire.FieldError
	for _, err := range found {
		var field, reason string
		if d, ok := err.(huma.ErrorDetailer); ok { // its text has the whole object, once for each of its names
			detail := d.ErrorDetail()
			field, reason = strings.TrimPrefix(detail.Location, "body."), detail.Message
		} else {
			reason = err.Error()
		}
		fields = append(fields, wire.FieldError{Field: short(field), Reason: short(reason)})
	}
	slices.SortStableFunc(fields, func(a, b wire.FieldError) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Reason, b.Reason))
	})
	if len(fields) > 0 {
		message = strings.TrimPrefix(fields[0].Field+": "+fields[0].Reason, ": ")
	}
	out := wire.NewError(status, wire.InvalidRequest, message)
	out.Details.Fields = fields[:min(len(fields), maxFields)]
	return out
}

// short cuts a text that may be as long as a client wants.
func short(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}
