package budgethttp

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestStatsOfTokens(t *testing.T) {
	w := newWorld(t)
	n := w.a.as(w.bearer("a"))
	for range 3 {
		n.get(pathA + "/model-selection").is(http.StatusOK)
	}
	n.as("nobody's").get(pathA + "/model-selection").is(http.StatusUnauthorized)
	assert.Equal(t, Stats{TokenHits: 2, TokenChecks: 2}, w.a.server.Stats())

	other := w.with(func(o *Options) {
		o.Authenticate = func(*http.Request) (Claims, error) { return Claims{Org: orgO, App: appA, Kind: Access}, nil }
	})
	other.get(pathA + "/model-selection").is(http.StatusOK)
	assert.Zero(t, other.server.Stats())
	assert.Zero(t, (*Server)(nil).Stats())
}
