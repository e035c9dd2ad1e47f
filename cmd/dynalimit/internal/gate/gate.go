// Package gate lets one person's browser into a page that a program serves on loopback. A code in the
// program's output is valid once. The browser then has a session below a secret path.
package gate

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/base32"
	"encoding/hex"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// codeTime is the validity of a code, and sessionTime the length of a session. mostWrong wrong codes end a code.
	codeTime, sessionTime = 2 * time.Minute, 12 * time.Hour
	mostWrong             = 5
	// mostSessions bounds the sessions; the oldest ends.
	mostSessions = 16
	// mostForm bounds the bytes of a posted code.
	mostForm = 1 << 10
)

//go:embed login.html login.css login.js
var files embed.FS

// Gate serves the login page at "/" and the page behind it below Prefix. Make one with New.
type Gate struct {
	// Prefix is the secret path of the page. Cookies ignore ports: without the path, a browser would send the session's
	// cookie to the other programs on this machine.
	Prefix string

	page   http.Handler
	cookie string
	now    func() time.Time
	cross  *http.CrossOriginProtection
	print  func(code string)

	mu       sync.Mutex
	code     string
	issued   time.Time
	wrong    int
	sessions map[string]time.Time // when each began
}

// New returns the gate of a program on a port, with a random Prefix and without a page or a code. It calls
// printCode with each new code: by Issue, when somebody opens the login page without a valid one, and after
// five wrong codes.
func New(port string, now func() time.Time, printCode func(code string)) *Gate {
	return &Gate{
		Prefix: "/" + randomText(16) + "/", cookie: "dynalimit-" + port, now: now, cross: http.NewCrossOriginProtection(), print: printCode,
		sessions: map[string]time.Time{},
	}
}

// SetPage sets the page behind the gate. Call it once, before the first request.
func (g *Gate) SetPage(page http.Handler) { g.page = page }

// randomText returns n random bytes as 2n hexadecimal digits.
func randomText(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// Issue makes a new login code, which ends the earlier one, and passes it to the printCode of New under the
// lock.
func (g *Gate) Issue() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.issueCode()
}

// issueCode makes a new login code of 80 bits in place of the old one, and passes it to g.print. It resets the
// count of wrong codes. The lock must be held.
func (g *Gate) issueCode() {
	b := make([]byte, 10) // 80 bits, 16 letters
	_, _ = rand.Read(b)
	g.code, g.issued, g.wrong = strings.ToLower(base32.StdEncoding.EncodeToString(b)), g.now(), 0
	g.print(g.code)
}

// Session returns a digest of the request's session cookie, as an id of the session. It is "" without a cookie,
// for an unknown session, and after the session's 12 hours.
func (g *Gate) Session(r *http.Request) string {
	cookie, err := r.Cookie(g.cookie)
	if err != nil {
		return ""
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if began, known := g.sessions[cookie.Value]; !known || g.now().Sub(began) >= sessionTime {
		return ""
	}
	digest := sha256.Sum256([]byte(cookie.Value))
	return hex.EncodeToString(digest[:])
}

// ServeHTTP passes requests below Prefix to the page, which checks their session itself. Elsewhere it serves
// the login page and logins, and issues a code if none is valid. There it refuses a Host that is not this
// machine's loopback.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, g.Prefix) {
		g.page.ServeHTTP(w, r)
		return
	}
	for name, value := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		"X-Content-Type-Options":  "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin",
		"Cross-Origin-Opener-Policy": "same-origin",
	} {
		w.Header().Set(name, value)
	}
	if !isLoopback(r.Host) {
		http.Error(w, "This program serves this machine alone: open it by 127.0.0.1.", http.StatusMisdirectedRequest)
		return
	}
	switch {
	case r.URL.Path == "/" && r.Method == http.MethodGet:
		g.mu.Lock()
		if !g.isCodeValid() {
			g.issueCode()
		}
		g.mu.Unlock()
		serveFile(w, "login.html", "text/html; charset=utf-8")
	case r.URL.Path == "/login.css" && r.Method == http.MethodGet:
		serveFile(w, "login.css", "text/css; charset=utf-8")
	case r.URL.Path == "/login.js" && r.Method == http.MethodGet:
		serveFile(w, "login.js", "text/javascript; charset=utf-8")
	case r.URL.Path == "/login" && r.Method == http.MethodPost:
		g.serveLogin(w, r)
	default:
		http.NotFound(w, r)
	}
}

// isCodeValid reports whether a login code exists that is neither used nor older than two minutes. The lock
// must be held.
func (g *Gate) isCodeValid() bool { return g.code != "" && g.now().Sub(g.issued) < codeTime }

// serveLogin exchanges the posted code for a session, sets its cookie for Prefix and 12 hours, and redirects to
// the page. It answers 403 to a wrong or expired code and to a request from another page.
func (g *Gate) serveLogin(w http.ResponseWriter, r *http.Request) {
	if err := g.cross.Check(r); err != nil {
		http.Error(w, "This request comes from another page.", http.StatusForbidden)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	session, ok := g.exchangeCode(strings.ToLower(strings.TrimSpace(r.PostFormValue("code"))))
	if !ok {
		http.Error(w, "This code is wrong, used or too old. Go back: the program prints another one.", http.StatusForbidden)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: g.cookie, Value: session, Path: g.Prefix, MaxAge: int(sessionTime / time.Second), HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	http.Redirect(w, r, g.Prefix, http.StatusSeeOther)
}

// exchangeCode returns a new session for the login code, which then ends; the oldest session ends if there are
// too many. It returns false for a wrong or expired code, and issues another code after five wrong ones.
func (g *Gate) exchangeCode(code string) (session string, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isCodeValid() {
		return "", false
	}
	if subtle.ConstantTimeCompare([]byte(code), []byte(g.code)) == 0 {
		if g.wrong++; g.wrong >= mostWrong {
			g.issueCode()
		}
		return "", false
	}
	g.code = ""
	oldest := ""
	for name, began := range g.sessions {
		if oldest == "" || began.Before(g.sessions[oldest]) {
			oldest = name
		}
	}
	if len(g.sessions) >= mostSessions {
		delete(g.sessions, oldest)
	}
	session = randomText(16)
	g.sessions[session] = g.now()
	return session, true
}

// isLoopback reports whether a Host header, with or without a port, is localhost, 127.0.0.1 or ::1. Another
// name would be a foreign page's.
func isLoopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	return name == "localhost" || name == "127.0.0.1" || name == "::1"
}

// serveFile answers with an embedded file of the login page, of the content type kind, or with 404 if it is not
// embedded.
func serveFile(w http.ResponseWriter, name, kind string) {
	text, err := files.ReadFile(name)
	if err != nil {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(text)
}
