package gate_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/gate"
)

// door is a gate with its clock and the codes that it printed.
type door struct {
	*gate.Gate
	now   time.Time
	codes []string
}

func newDoor() *door {
	d := &door{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	d.Gate = gate.New("7777", func() time.Time { return d.now }, func(code string) { d.codes = append(d.codes, code) })
	d.SetPage(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.Session(r) == "" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	d.Issue()
	return d
}

func (d *door) last() string { return d.codes[len(d.codes)-1] }

// post gives a code, and returns the answer with its cookie; nil without one.
func (d *door) post(code string, change func(*http.Request)) (*httptest.ResponseRecorder, *http.Cookie) {
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:7777/login", strings.NewReader(url.Values{"code": {code}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if change != nil {
		change(r)
	}
	answer := httptest.NewRecorder()
	d.ServeHTTP(answer, r)
	if cookies := answer.Result().Cookies(); len(cookies) > 0 {
		return answer, cookies[0]
	}
	return answer, nil
}

// open asks for a path with a cookie, which may be nil.
func (d *door) open(path string, cookie *http.Cookie) int {
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:7777"+path, nil)
	if cookie != nil {
		r.AddCookie(cookie)
	}
	answer := httptest.NewRecorder()
	d.ServeHTTP(answer, r)
	return answer.Code
}

// TestCodeOpensOnce: for two minutes, and the session ends after twelve hours.
func TestCodeOpensOnce(t *testing.T) {
	d := newDoor()
	assert.Regexp(t, `^[a-z2-7]{16}$`, d.last())
	assert.Equal(t, http.StatusUnauthorized, d.open(d.Prefix, nil))
	answer, cookie := d.post(strings.ToUpper(d.last())+" ", nil)
	assert.Equal(t, http.StatusSeeOther, answer.Code)
	assert.Equal(t, d.Prefix, answer.Header().Get("Location"))
	assert.True(t, cookie.HttpOnly)
	assert.Equal(t, []any{http.SameSiteStrictMode, d.Prefix, "dynalimit-7777"}, []any{cookie.SameSite, cookie.Path, cookie.Name})
	assert.Equal(t, http.StatusOK, d.open(d.Prefix, cookie))
	_, again := d.post(d.last(), nil)
	assert.Nil(t, again, "a used code")

	d.now = d.now.Add(12 * time.Hour)
	assert.Equal(t, http.StatusUnauthorized, d.open(d.Prefix, cookie))
	assert.Equal(t, http.StatusOK, d.open("/", nil))
	assert.Len(t, d.codes, 2, "opening the login page prints the next code")
	assert.Equal(t, http.StatusOK, d.open("/", nil))
	assert.Len(t, d.codes, 2, "while that is valid none")
	d.now = d.now.Add(2 * time.Minute)
	_, late := d.post(d.last(), nil)
	assert.Nil(t, late)
}

// TestFiveWrongCodesEndTheCode: and another one is printed.
func TestFiveWrongCodesEndTheCode(t *testing.T) {
	d := newDoor()
	first := d.last()
	for range 5 {
		answer, cookie := d.post("aaaaaaaaaaaaaaaa", nil)
		assert.Equal(t, http.StatusForbidden, answer.Code)
		assert.Nil(t, cookie)
	}
	assert.Len(t, d.codes, 2)
	_, cookie := d.post(first, nil)
	assert.Nil(t, cookie)
	_, cookie = d.post(d.last(), nil)
	assert.NotNil(t, cookie)
}

// TestOthersAreKeptOut: a foreign name, another page's form, and paths beside the secret one.
func TestOthersAreKeptOut(t *testing.T) {
	d := newDoor()
	for name, c := range map[string]struct {
		change func(*http.Request)
		code   int
	}{
		"a name that leads here": {func(r *http.Request) { r.Host = "evil.example:7777" }, http.StatusMisdirectedRequest},
		"another site":           {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		"another port":           {func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:3000") }, http.StatusForbidden},
	} {
		answer, cookie := d.post(d.last(), c.change)
		assert.Equal(t, c.code, answer.Code, name)
		assert.Nil(t, cookie, name)
	}
	for _, path := range []string{"/entities", "/" + strings.Repeat("0", 32) + "/", strings.TrimSuffix(d.Prefix, "/"), "/static/x"} {
		assert.Equal(t, http.StatusNotFound, d.open(path, nil), path)
	}
}
