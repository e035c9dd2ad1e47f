package budgethttp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What may be allocated for a request, whatever its body: as it comes, as a tree and as a value,
// and for what is made of it and of what is wrong with it.
const (
	memoryOfBody  = 12 << 20
	memoryOfBatch = 24 << 20
)

// sized is a document of a size: as many units as fit between a head and a tail.
func sized(size int, head, unit, tail string) string {
	body := strings.TrimSuffix(head+strings.Repeat(unit, (size-len(head)-len(tail))/len(unit)), ",") + tail
	return body + strings.Repeat(" ", max(0, size-len(body)))
}

// greedy are bodies of a size that would have a reader allocate much more: wide, deep, and with
// what grows when it is read, in a document of the route or as all of it.
func greedy(size int, head, tail string) map[string]string {
	out := map[string]string{
		"deep lists":        strings.Repeat("[", size/2) + strings.Repeat("]", size/2),
		"deep objects":      strings.Repeat(`{"a":`, size/5),
		"one name, twice":   sized(size, "{", `"a":1,`, "}"),
		"spaces":            strings.Repeat(" ", size),
		"brackets":          strings.Repeat("[", size),
		"a list of numbers": sized(size, "[", "1,", "]"),
	}
	for name, unit := range map[string]string{"numbers": "1,", "objects": "{},", "lists": "[],", "texts": `"",`, "nested lists": "[[[[[[]]]]]],", "long numbers": "1e1000,"} {
		out[name] = sized(size, head+"[", unit, "]"+tail)
	}
	for name, unit := range map[string]string{"a text": "a", "escapes": `\u0041`, "a text of é": "é"} {
		out[name] = sized(size, head+`"`, unit, `"`+tail)
	}
	names := &strings.Builder{}
	for i := 0; names.Len() < size-len(head)-len(tail)-20; i++ {
		names.WriteString(`"` + uuid(i)[24:] + `":1,`)
	}
	out["unknown names"] = "{" + strings.TrimSuffix(names.String(), ",") + "}"
	out["names"] = head + "{" + strings.TrimSuffix(names.String(), ",") + "}" + tail
	return out
}

// endless is a body without an end.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	e.read.Add(int64(len(b)))
	return len(b), nil
}

// Whatever a body is, and however many come at once, what is allocated for one is bounded.
func TestMemoryOfHostileBodiesIsBounded(t *testing.T) {
	w := newWorld(t)
	w.a.submit(call(2)).is(http.StatusAccepted) // the app is known
	bearer := "Bearer " + w.bearer("a")
	ask := func(path string, body io.Reader, length int64) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, io.NopCloser(body))
		r.ContentLength = length
		r.Header.Set("Authorization", bearer)
		rec := httptest.NewRecorder()
		w.a.server.ServeHTTP(rec, r)
		return rec.Code
	}
	var records []any
	for i := range 100 {
		records = append(records, call(i))
	}
	batch, err := wireJSON(example{"records": records})
	require.NoError(t, err)
	one, err := wireJSON(call(1))
	require.NoError(t, err)
	for _, route := range []struct {
		path, head, tail, good string
		limit                  int
		most                   uint64
	}{
		{pathA + "/usage", `{"tags":`, `}`, string(one), maxBody, memoryOfBody},
		{pathA + "/usage/batch", `{"records":[`, `]}`, string(batch), maxBatch, memoryOfBatch},
		{"/auth/token", `{"client_id":`, `}`, `{"client_id":"nobody","client_secret":"x"}`, maxBody, memoryOfBody}, // whoever asks
	} {
		bodies := greedy(route.limit, route.head, route.tail)
		bodies["the largest that is good"] = sized(route.limit, route.good, " ", "")
		for name, body := range bodies {
			require.LessOrEqual(t, len(body), route.limit, name)
			allocated := allocations(func() {
				together(4, 4, func(int) {
					assert.Less(t, ask(route.path, strings.NewReader(body), int64(len(body))), http.StatusInternalServerError, name)
				})
			})
			assert.Less(t, allocated/4, route.most, "%s: %s", route.path, name)
		}
		var read atomic.Int64
		allocated := allocations(func() {
			together(4, 4, func(int) {
				body := &endless{}
				assert.Equal(t, http.StatusRequestEntityTooLarge, ask(route.path, body, -1))
				read.Add(body.read.Load())
				assert.Equal(t, http.StatusRequestEntityTooLarge, ask(route.path, body, 1<<40))
			})
		})
		assert.LessOrEqual(t, read.Load()/4, int64(route.limit+1), "%s: what is read of a body without an end", route.path)
		assert.Less(t, allocated/4, route.most, "%s: bodies without an end", route.path)
	}
	assert.Equal(t, int64(100), w.total("premium", "").number("requests"), "the good ones, each once")
}

// allocations is how many bytes were allocated meanwhile, freed ones among them.
func allocations(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
