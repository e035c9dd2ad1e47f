package budgethttp

import (
	"log/slog"
	"net/http"
)

func levelOf(status int) slog.Level {
	if status >= http.StatusInternalServerError {
		return slog.LevelError
	}
	return slog.LevelInfo
}

// attributes are the request in the log: its route, never its path or query, which may
// have a token in it.
func (e Served) attributes() []slog.Attr {
	return []slog.Attr{
		slog.String("request_id", e.RequestID), slog.String("method", known(e.Method)), slog.String("route", e.Route),
		slog.Int("status", e.Status), slog.Int64("bytes", e.Bytes), slog.Duration("took", e.Took),
		slog.String("client", e.Client),
	}
}

// known is a method of HTTP, or other: a client may send any text of any length for one.
func known(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return method
	}
	return "other"
}
