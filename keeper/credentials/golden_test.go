package credentials

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files of testdata/golden")

var (
	// eventID finds the ids of events: 10 digits of time and 16 drawn at random.
	eventID = regexp.MustCompile(`\b(0[0-9A-HJKMNP-TV-Z]{9})[0-9A-HJKMNP-TV-Z]{16}\b`)
	// drawn finds what marks a request or a writer.
	drawn = regexp.MustCompile(`(ClientRequestToken":|":writer":\{"S":)"[0-9a-f-]{36}"`)
)

// The whole requests of every shape, and the reads between them.
func TestRequests(t *testing.T) {
	for name, play := range map[string]func(t *testing.T, w *world) func(){
		"create": func(t *testing.T, w *world) func() {
			return func() {
				_, err := w.a.Create(t.Context(), orgO, appA)
				require.NoError(t, err)
			}
		},
		"create_again": func(t *testing.T, w *world) func() {
			w.create(w.a, orgO, appA)
			return func() {
				_, err := w.a.Create(t.Context(), orgO, appA)
				require.NoError(t, err)
			}
		},
		"rotate_with_grace": func(t *testing.T, w *world) func() {
			w.create(w.a, orgO, "")
			return func() {
				_, err := w.a.Rotate(t.Context(), orgO, "", 24)
				require.NoError(t, err)
			}
		},
		"rotate_without_grace": func(t *testing.T, w *world) func() {
			w.create(w.a, orgO, "")
			return func() {
				_, err := w.a.Rotate(t.Context(), orgO, "", 0)
				require.NoError(t, err)
			}
		},
		"retrieve": func(t *testing.T, w *world) func() {
			issued, err := w.a.Create(t.Context(), orgO, "")
			require.NoError(t, err)
			return func() { w.retrieve(w.a, issued) }
		},
		"verify": func(t *testing.T, w *world) func() {
			c := w.create(w.a, orgO, "")
			return func() { require.NoError(t, second(w.a.Verify(t.Context(), c.ClientID, c.Secret))) }
		},
		"verify_under_an_older_pepper": func(t *testing.T, w *world) func() {
			c := w.create(w.a, orgO, "")
			rotated, err := w.keys.Rotated(chance(7), fixtureNow.Add(-time.Hour), time.Hour)
			require.NoError(t, err)
			next := w.node(func(o *Options) { o.Keys = rotated })
			return func() { require.NoError(t, second(next.Verify(t.Context(), c.ClientID, c.Secret))) }
		},
		"import": func(t *testing.T, w *world) func() {
			return func() { require.NoError(t, w.a.Import(t.Context(), orgO, "", NewSecret("$2b$12$hash"))) }
		},
		"revoke_client": func(t *testing.T, w *world) func() {
			w.create(w.a, orgO, appA)
			return func() { require.NoError(t, w.a.Revoke(t.Context(), orgO, appA)) }
		},
		"delete_client": func(t *testing.T, w *world) func() {
			w.create(w.a, orgO, "")
			return func() { require.NoError(t, w.a.Delete(t.Context(), orgO, "")) }
		},
		"revoke_token": func(t *testing.T, w *world) func() {
			return func() { require.NoError(t, w.a.RevokeToken(t.Context(), "jti-1", fixtureNow.Add(time.Hour))) }
		},
		"revoke_session": func(t *testing.T, w *world) func() {
			return func() { require.NoError(t, w.a.RevokeSession(t.Context(), "sid-1", fixtureNow.Add(time.Hour))) }
		},
		"revoked": func(t *testing.T, w *world) func() {
			return func() {
				w.revoked(w.a, TokenRef{ID: "jti-1", Session: "sid-1", ClientID: ClientID(orgO, ""), Version: 1})
			}
		},
		"create_key": func(t *testing.T, w *world) func() {
			return func() { require.NoError(t, second(w.a.CreateKey(t.Context(), "console"))) }
		},
		"verify_key": func(t *testing.T, w *world) func() {
			key, err := w.a.CreateKey(t.Context(), "console")
			require.NoError(t, err)
			return func() { require.NoError(t, second(w.b.VerifyKey(t.Context(), key.Secret))) }
		},
		"revoke_key": func(t *testing.T, w *world) func() {
			require.NoError(t, second(w.a.CreateKey(t.Context(), "console")))
			return func() { require.NoError(t, w.a.RevokeKey(t.Context(), "console")) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.Random = chance(11) })
			do := play(t, w)
			var seen wire
			w.db.SetFaults(seen.logRequest)
			do()
			w.assertGolden(name, seen.take())
		})
	}
}

// assertGolden compares requests with testdata/golden/{name}.json: whole bodies, keys
// sorted. Run go test with -update to accept a change.
func (w *world) assertGolden(name string, requests []request) {
	w.t.Helper()
	type recorded struct {
		Operation string
		Request   any
	}
	list := make([]recorded, len(requests))
	for i, r := range requests {
		body := bytes.ReplaceAll(eventID.ReplaceAll(r.body, []byte("${1}(random)")), []byte(w.table), []byte("control"))
		decoder := json.NewDecoder(bytes.NewReader(drawn.ReplaceAll(body, []byte(`${1}"(random)"`))))
		decoder.UseNumber()
		list[i].Operation = r.operation
		require.NoError(w.t, decoder.Decode(&list[i].Request))
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	require.NoError(w.t, encoder.Encode(list))
	path := filepath.Join("testdata", "golden", name+".json")
	if *update {
		require.NoError(w.t, os.MkdirAll(filepath.Dir(path), 0o755)) //nolint:gosec // documents
		require.NoError(w.t, os.WriteFile(path, out.Bytes(), 0o644)) //nolint:gosec // documents
	}
	want, err := os.ReadFile(path) //nolint:gosec // the test's own
	require.NoError(w.t, err, "run go test -update to write it")
	assert.Equal(w.t, string(want), out.String())
}
