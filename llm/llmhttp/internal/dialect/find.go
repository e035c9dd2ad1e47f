package dialect

import (
	"maps"
	"net/http"
	"strings"
)

// Find returns the route of a call by its method and its path as it is sent, still escaped. It tries each of
// the path's Spellings. It returns false for any other request, as for all but POST.
func Find(method, path string) (route Route, ok bool) {
	if method != http.MethodPost {
		return Route{}, false
	}
	for _, path := range Spellings(path) {
		for _, find := range []func(path string) (Route, bool){findOpenAI, findAnthropic, findBedrock, findGemini} {
			if route, ok = find(path); ok {
				return route, true
			}
		}
	}
	return Route{}, false
}

// Spellings returns two unescaped, cleaned forms of a path, as servers may read it. The first keeps escaped and
// backward slashes, the second reads both as slashes.
func Spellings(path string) []string {
	path = normalPath(path)
	return []string{path, normalPath(strings.NewReplacer("%2f", "/", "%2F", "/", "\\", "/").Replace(path))}
}

// ErrorsOf returns the shape of errors that the sender of a request expects. That is its route's or, for an
// unknown route, its SDK's, by headers and path. It is Plain if neither is known.
func ErrorsOf(route Route, r *http.Request) *Shape {
	if route.Dialect != nil {
		return route.Shape
	}
	path := foldedPath(normalPath(r.URL.EscapedPath()))
	switch h := r.Header; {
	case strings.HasPrefix(h.Get("Authorization"), "AWS4-"), h.Get("Amz-Sdk-Request") != "", strings.Contains(path, "/model/"):
		return awsErrors
	case h.Get("Anthropic-Version") != "", strings.Contains(path, "/v1/messages"):
		return messages.Shape
	case h.Get("X-Goog-Api-Key") != "", h.Get("X-Goog-Api-Client") != "", strings.Contains(path, "/v1beta"), strings.Contains(path, "/publishers/"):
		return generate.Shape
	case strings.Contains(path, "/v1/"), strings.Contains(path, "/openai/"):
		return openAIRoutes
	}
	return Plain
}

// openAIRoutes is openAIErrors for a route that is not served.
var openAIRoutes = func() *Shape {
	s := *openAIErrors
	s.names = maps.Clone(s.names)
	s.names[http.StatusNotFound] = "unknown_url"
	return &s
}()
