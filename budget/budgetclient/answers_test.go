package budgetclient

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAReleaseIsAnsweredByTheKeeperAlone: a page of a proxy does not say that a hold was given
// back, whatever its status.
func TestAReleaseIsAnsweredByTheKeeperAlone(t *testing.T) {
	for _, page := range []func() (*http.Response, error){
		func() (*http.Response, error) { return html(http.StatusOK), nil },
		func() (*http.Response, error) { return reply(http.StatusOK, `{}`), nil },
		func() (*http.Response, error) { return reply(http.StatusAccepted, ""), nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			f := (&fake{}).first("/release", page)
			h, err := newClient(t, f).Reserve(t.Context(), org, app, "premium", 5, time.Minute)
			require.NoError(t, err)
			require.NoError(t, h.Release(t.Context()))
			assert.Equal(t, 2, f.count("/release"))
		})
	}
}
