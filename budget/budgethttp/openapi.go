package budgethttp

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/page"
)

// examples puts a route's examples into the document.
func (s *Server) examples(r route) {
	op := operationOf(s.api.OpenAPI().Paths[r.paths()[0]], r.method)
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

// describe writes the document and the page once, and serves them.
func (s *Server) describe() error {
	document, err := json.MarshalIndent(s.api.OpenAPI(), "", "  ")
	if err != nil {
		return err
	}
	readable, err := page.Render(document)
	if err != nil {
		return err
	}
	s.serve("openapi", "/openapi.json", "application/json", document, "")
	s.serve("docs", "/docs", "text/html; charset=utf-8", readable, page.Policy)
	const root = "GET /{$}"
	s.names[root] = "root"
	s.mux.HandleFunc(root, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "docs") // relative: the handler may be mounted anywhere
		w.WriteHeader(http.StatusSeeOther)
	})
	return nil
}

// serve answers with the same always, at the root and below /api/v1.
func (s *Server) serve(id, path, contentType string, body []byte, policy string) {
	for _, prefix := range []string{"", base} {
		pattern := "GET " + prefix + path
		s.names[pattern] = id
		s.mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h.Set("Content-Type", contentType)
			h.Set("Cache-Control", "public, max-age=300")
			if policy != "" {
				h.Set("Content-Security-Policy", policy)
			}
			_, _ = w.Write(body) // the client may be gone
		})
	}
}
