package dialect

import "net/http"

// Find recognises a call by its method and its path as it is sent, still escaped; ok is false for
// anything else.
func Find(method, path string) (route Route, ok bool) {
	if method != http.MethodPost {
		return Route{}, false
	}
	path = normal(path)
	for _, find := range []func(path string) (Route, bool){openAI, anthropic, bedrock, gemini} {
		if route, ok = find(path); ok {
			return route, true
		}
	}
	return Route{}, false
}
