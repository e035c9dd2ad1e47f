package budgethttp

import (
	"log/slog"
	"net/http"
)

// levelOf returns the log level of a response: Error for a status of 500 or above, else Info.
func levelOf(status int) slog.Level {
	if status >= http.StatusInternalServerError {
		return slog.LevelError
	}
	return slog.LevelInfo
}

// logAttributes returns the log attributes of a request: its route, but never its path or query,
// which may contain a token.
func (e Served) logAttributes() []slog.Attr {
	return []slog.Attr{
		slog.String("request_id", e.RequestID), slog.String("method", knownMethod(e.Method)), slog.String("route", e.Route),
		slog.Int("status", e.Status), slog.Int64("bytes", e.Bytes), slog.Duration("took", e.Took),
		slog.String("client", e.Client),
	}
}

// knownMethod returns a standard HTTP method, or "other", because a client may send any text.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return method
	}
	return "other"
}
