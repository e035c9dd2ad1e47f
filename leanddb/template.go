package leanddb

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
)

// The header fields that differ between requests of one template.
const (
	invocationField    = "Amz-Sdk-Invocation-Id"
	attemptField       = "Amz-Sdk-Request"
	dateField          = "X-Amz-Date"
	tokenField         = "X-Amz-Security-Token"
	authorizationField = "Authorization"
	// lengthField is signed, and no field of the header.
	lengthField = "Content-Length"
)

const (
	algorithm = "AWS4-HMAC-SHA256"
	// dateFormat is that of X-Amz-Date, and dayLength the length of its day.
	dateFormat = "20060102T150405Z"
	dayLength  = 8
)

// unsigned are the fields that the SDK does not sign.
var unsigned = []string{authorizationField, "User-Agent", "X-Amzn-Trace-Id", "Expect", "Transfer-Encoding"}

// templateKey has the facts on which the constant parts of requests depend, besides the client's
// options.
type templateKey struct {
	// account is in the host of an endpoint for one account. hasToken tells of temporary credentials.
	account  string
	hasToken bool
	// isStandard means the standard retryer, which the User-Agent names.
	isStandard bool
}

// newTemplateKey returns the key of the template for requests with these credentials and this retryer. It has
// the account, and whether there are a session token and the standard retryer.
func newTemplateKey(c *aws.Credentials, r aws.Retryer) templateKey {
	_, isStandard := r.(*retry.Standard)
	return templateKey{c.AccountID, c.SessionToken != "", isStandard}
}

// template has the constant parts of requests, copied from one of the SDK's.
type template struct {
	key templateKey
	// refused means that the SDK's request is not understood. The SDK then sends all of this key.
	refused bool
	request http.Request
	// path and query begin the text to sign. signed are its fields in order.
	path   string
	signed []signedField
	// names lists the signed fields. scope follows the day in the signature's scope.
	names, scope, region, service string
	// signing is the key of the last request.
	signing atomic.Pointer[signingKey]
}

// signedField is a line of the text to sign: a constant, or a text before the value of a field.
type signedField struct {
	text  string
	value func(*variable) string // nil for a constant
}

// variable has the values of one request's variable fields.
type variable struct{ invocation, attempt, date, token, length string }

// fieldReader returns the function that reads a header field which differs between requests from a variable. It
// is nil for a constant field.
func fieldReader(field string) func(*variable) string {
	switch field {
	case invocationField:
		return func(v *variable) string { return v.invocation }
	case attemptField:
		return func(v *variable) string { return v.attempt }
	case dateField:
		return func(v *variable) string { return v.date }
	case tokenField:
		return func(v *variable) string { return v.token }
	case lengthField:
		return func(v *variable) string { return v.length }
	}
	return nil
}

// learnTemplate returns the template of the SDK's request r, which credentials c signed. It is refused if the
// request has unknown parts, or if its signature cannot be computed from them. It reads the request's body and
// puts a copy in its place.
func learnTemplate(k templateKey, r *http.Request, c *aws.Credentials) *template {
	t := &template{key: k, refused: true}
	body, err := io.ReadAll(r.Body)
	r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil || !isKnownForm(r, len(body)) || !t.readAuthorization(r.Header.Get(authorizationField), c.AccessKeyID) {
		return t
	}
	t.request = http.Request{Method: r.Method, URL: cloneURL(r.URL), Host: r.Host, Header: maps.Clone(r.Header)}
	for _, field := range [...]string{invocationField, attemptField, dateField, tokenField, authorizationField} {
		delete(t.request.Header, field)
	}
	for name, values := range t.request.Header {
		t.request.Header[name] = values[:len(values):len(values)]
	}
	t.path = r.URL.Path
	t.setSignedFields(r)
	v := variable{r.Header.Get(invocationField), r.Header.Get(attemptField), r.Header.Get(dateField), r.Header.Get(tokenField), strconv.Itoa(len(body))}
	w := &workspace{body: body}
	t.refused = string(t.signRequest(w, &v, c)) != r.Header.Get(authorizationField)
	return t
}

// isKnownForm reports whether a request of the SDK, with a body of length bytes, has the method, path, target
// and header fields that newRequest makes.
func isKnownForm(r *http.Request, length int) bool {
	u, h := r.URL, r.Header
	for _, values := range h {
		if len(values) != 1 {
			return false
		}
	}
	return r.Method == http.MethodPost && r.ContentLength == int64(length) && len(r.TransferEncoding) == 0 &&
		strings.HasPrefix(u.Path, "/") && !strings.ContainsFunc(u.Path, isEscaped) && u.EscapedPath() == u.Path && u.Opaque == "" && u.RawQuery == "" && u.User == nil &&
		h.Get("X-Amz-Target") == "DynamoDB_20120810.UpdateItem" && h.Get("Content-Type") == "application/x-amz-json-1.0" &&
		h.Get("Accept-Encoding") == "identity" && strings.HasPrefix(h.Get(attemptField)+";", "attempt=1;") && len(h.Get(dateField)) == len(dateFormat)
}

// isEscaped reports whether a character of a path may be escaped in the text to sign.
func isEscaped(c rune) bool {
	return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '/' || c == '-' || c == '_')
}

// cloneURL returns a copy of the URL.
func cloneURL(u *url.URL) *url.URL {
	c := *u
	return &c
}

// readAuthorization sets the template's scope, region and service from text, the field Authorization of a
// signature by the access key id. It returns false for a text of another form.
func (t *template) readAuthorization(text, id string) bool {
	text, isV4 := strings.CutPrefix(text, algorithm+" Credential="+id+"/")
	text, _, hasFields := strings.Cut(text, ", SignedHeaders=")
	parts := strings.Split(text, "/")
	if !isV4 || !hasFields || len(parts) != 4 || len(parts[0]) != dayLength {
		return false
	}
	t.scope, t.region, t.service = text[dayLength:], parts[1], parts[2]
	return parts[3] == "aws4_request"
}

// setSignedFields sets the template's signed fields and their names, sorted, from those of the SDK's request,
// with Host and Content-Length.
func (t *template) setSignedFields(r *http.Request) {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	constants := map[string]string{"host": host}
	fields := []string{"host", lengthField}
	for name := range r.Header {
		if !slices.Contains(unsigned, name) {
			fields, constants[name] = append(fields, name), r.Header.Get(name)
		}
	}
	slices.SortFunc(fields, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
	for _, name := range fields {
		low := strings.ToLower(name)
		t.names += ";" + low
		if value := fieldReader(name); value != nil {
			t.signed = append(t.signed, signedField{low + ":", value})
		} else {
			t.signed = append(t.signed, signedField{low + ":" + constants[name], nil})
		}
	}
	t.names = t.names[1:]
}

// newRequest returns a new request with a copy of the body of w, signed now plus the offset. An HTTP client may
// read the copy after its answer. It uses the memory of w; most is the number of tries that the retryer allows,
// 0 for any.
func (t *template) newRequest(ctx context.Context, w *workspace, c *aws.Credentials, most int, offset time.Duration) *http.Request {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	var ends [4]int
	b := appendUUID(w.fields[:0], &id)
	ends[0] = len(b)
	b = append(b, "attempt=1"...)
	if most != 0 {
		b = strconv.AppendInt(append(b, "; max="...), int64(most), 10)
	}
	if deadline, ok := ctx.Deadline(); ok && offset > 0 {
		b = deadline.Add(offset).AppendFormat(append(b, "; ttl="...), dateFormat)
	}
	ends[1] = len(b)
	b = time.Now().Add(offset).UTC().AppendFormat(b, dateFormat)
	ends[2] = len(b)
	b = strconv.AppendInt(b, int64(len(w.body)), 10)
	ends[3] = len(b)
	text := string(b)
	w.fields = b
	v := variable{text[:ends[0]], text[ends[0]:ends[1]], text[ends[1]:ends[2]], c.SessionToken, text[ends[2]:]}

	values := [...]string{v.invocation, v.attempt, v.date, string(t.signRequest(w, &v, c)), v.token}
	header := make(http.Header, len(t.request.Header)+len(values)-1)
	maps.Copy(header, t.request.Header)
	header[invocationField] = values[0:1:1]
	header[attemptField] = values[1:2:2]
	header[dateField] = values[2:3:3]
	header[authorizationField] = values[3:4:4]
	if v.token != "" {
		header[tokenField] = values[4:5:5]
	}
	r := t.request.WithContext(ctx)
	r.URL, r.Header, r.ContentLength = cloneURL(t.request.URL), header, int64(len(w.body))
	r.Body = io.NopCloser(bytes.NewReader(bytes.Clone(w.body)))
	return r
}

// appendUUID appends an id to b in the text form of a UUID, in lower case.
func appendUUID(b []byte, id *[16]byte) []byte {
	for i, part := range [...][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, part)
	}
	return b
}

// signRequest returns the value of the field Authorization for a request with the body of w and the fields v.
// The bytes are in the memory of w, and valid until its next use.
func (t *template) signRequest(w *workspace, v *variable, c *aws.Credentials) []byte {
	b := append(append(append(w.canonical[:0], "POST\n"...), t.path...), "\n\n"...)
	for i := range t.signed {
		f := &t.signed[i]
		b = append(b, f.text...)
		if f.value != nil {
			b = append(b, f.value(v)...)
		}
		b = append(b, '\n')
	}
	b = append(append(append(b, '\n'), t.names...), '\n')
	sum := sha256.Sum256(w.body)
	b = hex.AppendEncode(b, sum[:])
	sum = sha256.Sum256(b)
	day := v.date[:dayLength]
	b = append(append(append(b[:0], algorithm+"\n"...), v.date...), '\n')
	b = hex.AppendEncode(append(append(append(b, day...), t.scope...), '\n'), sum[:])
	sum = t.signingKeyOf(c, day).signer.sum(b)
	b = append(append(append(b[:0], algorithm+" Credential="...), c.AccessKeyID...), '/')
	b = append(append(b, day...), t.scope...)
	b = append(append(append(b, ", SignedHeaders="...), t.names...), ", Signature="...)
	w.canonical = hex.AppendEncode(b, sum[:])
	return w.canonical
}

// signingKeyOf returns the key that signs requests of a day, and caches it. It derives a key only when the day
// or the secret has changed.
func (t *template) signingKeyOf(c *aws.Credentials, day string) *signingKey {
	k := t.signing.Load()
	if k == nil || k.day != day || k.secret != c.SecretAccessKey {
		k = deriveKey(c.SecretAccessKey, strings.Clone(day), t.region, t.service)
		t.signing.Store(k)
	}
	return k
}
