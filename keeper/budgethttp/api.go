package budgethttp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/strict"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
)

// tags group the routes, in the order in which a client needs them.
var tags = []*huma.Tag{
	{Name: "authentication", Description: "Tokens for a client's id and secret."},
	{Name: "selection", Description: "Before a call: which model to use, and what it would cost."},
	{Name: "usage", Description: "After a call: what it cost."},
	{Name: "aggregates", Description: "What was spent."},
	{Name: "administration", Description: "What organisations and apps may spend, by whoever has a provisioning key."},
	{Name: "credentials", Description: "What clients log in with."},
	{Name: "service", Description: "Whether there is one."},
}

// newAPI makes huma's API on mux, without routes; prefix is the server's address in its document. A transformer
// of a converts huma's errors, so that newAPI changes nothing of huma's global state.
func newAPI(mux *http.ServeMux, prefix string, a *answers) huma.API {
	return humago.New(mux, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Budget keeper", Version: "1",
				Description: "Keeps what LLM calls cost within daily budgets: which model an app may use now, what a call cost, what was spent. Amounts are in millionths of a dollar.",
			},
			Servers: []*huma.Server{{URL: cmp.Or(prefix, "/")}},
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
			"application/json":         {Marshal: writeResponse, Unmarshal: unmarshal},
			"application/problem+json": {Marshal: writeResponse, Unmarshal: unmarshal}, // huma's errors, until shape converts them
		},
		DefaultFormat: "application/json",
		Transformers:  []huma.Transformer{a.shapeError},
	})
}

// writeResponse encodes v as JSON and writes it to w at once. It returns only an error of the encoding, because
// the client may be gone.
func writeResponse(w io.Writer, v any) error {
	body, err := encode(v)
	if err == nil {
		_, _ = w.Write(body)
	}
	return err
}

// encode returns a response as JSON with a line end, without escapes for HTML. If v has stored JSON, by its
// method Encoded, encode returns that.
func encode(v any) ([]byte, error) {
	if kept, ok := v.(interface{ Encoded() []byte }); ok && kept.Encoded() != nil {
		return kept.Encoded(), nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// unmarshal decodes a body, and refuses JSON that readers may understand differently. In a batch it leaves
// the records undecoded, so that a bad one does not fail the others.
func unmarshal(data []byte, v any) error {
	switch v := v.(type) {
	case *any:
		if err := strict.Check(data); err != nil {
			return err
		}
		return json.Unmarshal(data, v)
	case *wire.Batch: // an error in one record must not affect the others
		return strict.UnmarshalApart(data, v, "records")
	}
	return strict.Unmarshal(data, v)
}
