package budgethttp

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
)

// The headers that say whose a request is and how its body is to be read can be read in one
// way only, as a query and a body can: what stands before this server may take the last of
// two, and this one the first.
func TestHeadersAreReadInOneWayOnly(t *testing.T) {
	w := newWorld(t)
	const head = " HTTP/1.1\r\nHost: keeper\r\n"
	for _, keys := range []string{
		"X-API-Key: " + w.key + "\r\nX-API-Key: another\r\n", "X-API-Key: " + w.key + "\r\nx-api-key: " + w.key + "\r\n",
		"X-API-Key: another\r\nX-API-Key: " + w.key + "\r\n", "X-API-Key: \r\nX-API-Key: " + w.key + "\r\n",
	} {
		w.a.raw("GET "+pathO+head+keys+"\r\n").fails(http.StatusUnauthorized, wire.Unauthorized)
	}
	bearer := "Authorization: Bearer " + w.bearer("a") + "\r\n"
	w.a.raw("GET "+pathA+"/model-selection"+head+bearer+bearer+"\r\n").fails(http.StatusUnauthorized, wire.Unauthorized)

	raw, err := wireJSON(call(1))
	require.NoError(t, err)
	for _, header := range []string{
		"Content-Encoding: gzip", "Content-Encoding: br, gzip", "Content-Encoding: identity\r\nContent-Encoding: gzip", "Content-Type: application/json", "Content-Type: text/plain",
	} {
		w.a.raw(w.post(header+"\r\nContent-Length: "+strconv.Itoa(len(raw)))+string(raw)).fails(http.StatusUnsupportedMediaType, wire.InvalidRequest)
	}
	assert.Equal(t, int64(0), w.total("premium", "").number("requests"))
	w.a.raw(w.post("Content-Encoding: identity\r\nContent-Length: "+strconv.Itoa(len(raw))) + string(raw)).is(http.StatusAccepted)
}
