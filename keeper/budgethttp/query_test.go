package budgethttp

import (
	"net/http"
	"testing"

	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
)

// A query can be read in one way only, as a body can: a parameter that is there twice, or one
// that cannot be read, is refused, and nothing is done.
func TestQueriesAreReadInOneWayOnly(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{
		pathA + "/model-selection?force_check=true&force_check=false", pathA + "/model-selection?force_check=true&force_check=true",
		pathA + "/model-selection?force_check=true;force_check=false", pathA + "/model-selection?force_check=%zz", pathA + "/model-selection?%zz",
		pathA + "/history?from=20990101&to=20990102&to=20990103", pathA + "/history?from=20990101&to=20990102&fro%6d=20990101",
	} {
		w.a.get(path).fails(http.StatusBadRequest, wire.InvalidRequest)
	}
	w.a.get(pathA+"/history?from=20990101&fro%6D=20990101&to=20990102").fails(http.StatusBadRequest, wire.InvalidRequest)
	w.a.get(pathA + "/history?fro%6D=20990101&to=20990102").is(http.StatusOK)
	w.a.get(pathA + "/model-selection?").is(http.StatusOK)
	w.a.as("").get("/health?a=1&a=2&%zz").is(http.StatusOK) // whoever probes may add what it likes
}
