package httpcopy_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/internal/httpcopy"
)

// TestGiveBack: a handler outside reads of the original request what it would read without a copy.
func TestGiveBack(t *testing.T) {
	mux := http.NewServeMux()
	for _, pattern := range []string{"POST /orders/{id}/files/{path...}", "POST /exact/{$}", "POST /plain"} {
		mux.HandleFunc(pattern, func(_ http.ResponseWriter, r *http.Request) {
			_ = r.FormValue("a")
			r.Form.Set("set", "by the handler")
		})
	}
	for _, target := range []string{"/orders/7/files/a/b?q=1", "/exact/", "/plain?q=2", "/unrouted"} {
		for _, content := range []string{"application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
			request := func() *http.Request {
				body := "a=1"
				if strings.HasPrefix(content, "multipart") {
					body = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x--\r\n"
				}
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(body))
				r.Header.Set("Content-Type", content)
				return r
			}
			plain, original := request(), request()
			mux.ServeHTTP(httptest.NewRecorder(), plain)

			copied := original.WithContext(original.Context())
			mux.ServeHTTP(httptest.NewRecorder(), copied)
			httpcopy.RestoreFields(original, copied)

			assert.Equal(t, plain.Pattern, original.Pattern, target)
			assert.Equal(t, plain.Form, original.Form, target)
			assert.Equal(t, plain.PostForm, original.PostForm, target)
			assert.Equal(t, plain.MultipartForm, original.MultipartForm, target)
			for _, name := range []string{"id", "path", "$", ""} {
				assert.Equal(t, plain.PathValue(name), original.PathValue(name), "%s %s", target, name)
			}
		}
	}
}
