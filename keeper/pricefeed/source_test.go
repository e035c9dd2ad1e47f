package pricefeed

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dynalimit/dynalimit/prices"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// served is a server, and a transport to it that keeps no connection.
func served(t *testing.T, handler http.HandlerFunc) (string, http.RoundTripper) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL, &http.Transport{DisableKeepAlives: true}
}

func TestURLAsksWhetherThereIsANewList(t *testing.T) {
	var asked []http.Header
	address, transport := served(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Clone())
		w.Header().Set("ETag", `"v1"`)
		if r.Header.Get("If-None-Match") == `"v1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, "[]")
	})
	source := URL{Address: address + "/list", Transport: transport, Header: http.Header{"authorization": {"Bearer x"}}}
	body, tag, err := source.Open(t.Context(), "")
	require.NoError(t, err)
	text, err := io.ReadAll(body)
	require.NoError(t, err)
	require.NoError(t, body.Close())
	assert.Equal(t, "[]", string(text))
	_, again, err := source.Open(t.Context(), tag)
	require.ErrorIs(t, err, ErrNotModified)
	assert.Equal(t, tag, again)
	require.Len(t, asked, 2)
	assert.Equal(t, "Bearer x", asked[0].Get("Authorization"))
	assert.Equal(t, "application/json", asked[0].Get("Accept"))
}

// asked is a transport that keeps what it was asked for.
type asked struct{ address string }

func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	a.address = r.URL.String()
	return nil, http.ErrHandlerTimeout
}

func TestURLIsLiteLLMsListByDefault(t *testing.T) {
	var a asked
	_, _, err := URL{Transport: &a}.Open(t.Context(), "")
	require.ErrorIs(t, err, http.ErrHandlerTimeout)
	assert.Equal(t, liteLLM, a.address)
}

func TestURLTellsNoSecretOfItsAddress(t *testing.T) {
	address, transport := served(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	address = strings.Replace(address, "http://", "http://user:hidden@", 1) + "/list?signature=hidden"
	_, _, err := URL{Address: address, Transport: transport}.Open(t.Context(), "")
	require.ErrorContains(t, err, "/list answered 403 Forbidden")
	assert.NotContains(t, err.Error(), "hidden")
	for _, bad := range []string{"list.json", "ftp://x/hidden", "http://", "https://x/%zz?hidden", "http://127.0.0.1:1/?signature=hidden"} {
		_, _, err := URL{Address: bad, Transport: transport}.Open(t.Context(), "")
		require.Error(t, err, bad)
		assert.NotContains(t, err.Error(), "hidden")
	}
}

func TestURLFollowsFewRedirectsAndKeepsItsHeaderToItself(t *testing.T) {
	var told http.Header
	other, transport := served(t, func(w http.ResponseWriter, r *http.Request) {
		told = r.Header.Clone()
		_, _ = io.WriteString(w, "[]")
	})
	address, _ := served(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/other":
			http.Redirect(w, r, other, http.StatusFound)
		case "/secure":
			http.Redirect(w, r, "https://localhost:1/", http.StatusFound)
		default:
			http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
		}
	})
	open := func(path string) error {
		body, _, err := URL{Address: address + path, Transport: transport, Header: http.Header{"X-Key": {"secret"}}}.Open(t.Context(), "")
		if err == nil {
			err = body.Close()
		}
		return err
	}
	require.NoError(t, open("/other"))
	assert.Empty(t, told.Get("X-Key"), "sent to another host")
	require.ErrorContains(t, open("/secure"), "redirected from http to https")
	require.ErrorContains(t, open("/x"), "more than 3 redirects")
}

// TestAnEndlessListIsRefused after as much as a list may have.
func TestAnEndlessListIsRefused(t *testing.T) {
	address, transport := served(t, func(w http.ResponseWriter, _ *http.Request) {
		block := []byte(strings.Repeat(" ", 1<<16))
		for {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	r, err := New(&imports{}, URL{Address: address, Transport: transport}, nil)
	require.NoError(t, err)
	_, err = r.Refresh(t.Context())
	require.ErrorIs(t, err, prices.ErrList)
	assert.ErrorContains(t, err, "16 MiB")
}

func TestFileIsReadWhenItChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.json")
	_, _, err := File(path).Open(t.Context(), "")
	require.ErrorIs(t, err, os.ErrNotExist)
	_, _, err = File(filepath.Dir(path)).Open(t.Context(), "")
	require.ErrorContains(t, err, "no regular file")
	require.NoError(t, os.WriteFile(path, []byte("[]"), 0o600))
	body, tag, err := File(path).Open(t.Context(), "")
	require.NoError(t, err)
	require.NoError(t, body.Close())
	_, _, err = File(path).Open(t.Context(), tag)
	require.ErrorIs(t, err, ErrNotModified)
	require.NoError(t, os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)))
	body, _, err = File(path).Open(t.Context(), tag)
	require.NoError(t, err)
	require.NoError(t, body.Close())
}
