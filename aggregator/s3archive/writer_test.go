package s3archive

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const secret = "a-secret-that-nobody-sees"

// bucket is a server that keeps the objects that are put, as far as S3 does.
type bucket struct {
	*httptest.Server
	mu       sync.Mutex
	objects  map[string][]byte // by host and path
	requests []*http.Request
	fails    func(n int) (status int, code string) // of the n-th request; 0 for none
}

func newBucket(t *testing.T) *bucket {
	t.Helper()
	b := &bucket{objects: map[string][]byte{}}
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

// ServeHTTP answers a request.
func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests = append(b.requests, r)
	digest := sha256.Sum256(body)
	status, code := 0, ""
	switch {
	case err != nil:
		status, code = http.StatusBadRequest, "IncompleteBody"
	case r.Method != http.MethodPut:
		status, code = http.StatusMethodNotAllowed, "MethodNotAllowed"
	case r.Header.Get("X-Amz-Checksum-Sha256") != base64.StdEncoding.EncodeToString(digest[:]):
		status, code = http.StatusBadRequest, "BadDigest"
	case b.fails != nil:
		status, code = b.fails(len(b.requests))
	}
	if status != 0 {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code><Message>no</Message></Error>")
		return
	}
	b.objects[r.Host+r.URL.Path] = body
}

// client is one of S3 that sends everything to the server, wherever the SDK means to.
func (b *bucket) client(opts ...func(*s3.Options)) *s3.Client {
	o := s3.Options{
		Region: "eu-central-1", Credentials: credentials.NewStaticCredentialsProvider("AKIA", secret, "a-session-token"),
		BaseEndpoint: aws.String("http://s3.test"), HTTPClient: b,
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		}),
	}
	return s3.New(o, opts...)
}

// Do sends a request to the server.
func (b *bucket) Do(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host = r.URL.Host
	r.URL.Host = strings.TrimPrefix(b.URL, "http://")
	return b.Server.Client().Do(r)
}

func newWriter(t *testing.T, client S3, opts *Options) *Writer {
	t.Helper()
	w, err := New(client, "archive", opts)
	require.NoError(t, err)
	return w
}

const name = "usage/hour/date=2026-03-29/shardId-01_1_2_abc.jsonl.gz"

// TestPut: an object has the file's name and bytes, in either style of addresses.
func TestPut(t *testing.T) {
	for style, where := range map[bool]string{true: "s3.test/archive/limits/" + name, false: "archive.s3.test/limits/" + name} {
		b := newBucket(t)
		w := newWriter(t, b.client(func(o *s3.Options) { o.UsePathStyle = style }), &Options{Prefix: "limits"})
		require.NoError(t, w.Put(t.Context(), name, []byte("one")))
		require.NoError(t, w.Put(t.Context(), name, []byte("two")), "again")
		assert.Equal(t, map[string][]byte{where: []byte("two")}, b.objects)
		h := b.requests[0].Header
		assert.Equal(t, "application/x-ndjson", h.Get("Content-Type"))
		assert.Equal(t, "gzip", h.Get("Content-Encoding"))
		assert.EqualValues(t, 3, b.requests[0].ContentLength)
		for _, none := range []string{"X-Amz-Server-Side-Encryption", "X-Amz-Storage-Class", "X-Amz-Expected-Bucket-Owner", "X-Amz-Acl"} {
			assert.Empty(t, h.Get(none), none)
		}
	}
}

func TestOptionsAreSent(t *testing.T) {
	b := newBucket(t)
	w := newWriter(t, b.client(), &Options{
		Prefix: "a/b/", Encryption: types.ServerSideEncryptionAwsKms, KMSKey: "alias/limits", StorageClass: types.StorageClassStandardIa, Owner: "123456789012",
	})
	require.NoError(t, w.Put(t.Context(), "x", nil))
	assert.Contains(t, b.objects, "archive.s3.test/a/b/x")
	h := b.requests[0].Header
	assert.Equal(t, "aws:kms", h.Get("X-Amz-Server-Side-Encryption"))
	assert.Equal(t, "alias/limits", h.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"))
	assert.Equal(t, "STANDARD_IA", h.Get("X-Amz-Storage-Class"))
	assert.Equal(t, "123456789012", h.Get("X-Amz-Expected-Bucket-Owner"))
}

// TestFailures: what is busy is sent again, whole; what is refused is told, with what was
// stored where and nothing of the credentials.
func TestFailures(t *testing.T) {
	b := newBucket(t)
	b.fails = func(n int) (int, string) {
		return []int{http.StatusServiceUnavailable, http.StatusInternalServerError, 0}[min(n-1, 2)], "SlowDown"
	}
	w := newWriter(t, b.client(), nil)
	require.NoError(t, w.Put(t.Context(), name, []byte("one")))
	assert.Len(t, b.requests, 3)
	assert.Equal(t, map[string][]byte{"archive.s3.test/" + name: []byte("one")}, b.objects)

	for code, status := range map[string]int{"AccessDenied": http.StatusForbidden, "NoSuchBucket": http.StatusNotFound, "SlowDown": http.StatusServiceUnavailable} {
		b.fails = func(int) (int, string) { return status, code }
		err := w.Put(t.Context(), name, []byte("two"))
		require.Error(t, err)
		assert.ErrorContains(t, err, code)
		assert.ErrorContains(t, err, "put "+name+" into archive")
		for _, kept := range []string{secret, "a-session-token"} {
			assert.NotContains(t, err.Error(), kept)
		}
	}
	assert.Equal(t, []byte("one"), b.objects["archive.s3.test/"+name], "what was there is left")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	sent := len(b.requests)
	require.ErrorIs(t, w.Put(ended, name, []byte("x")), context.Canceled)
	assert.Len(t, b.requests, sent)
	for _, r := range b.requests {
		assert.NotContains(t, r.Header.Get("Authorization"), secret)
	}
}

// TestKeysThatAreRefused: before anything is sent.
func TestKeysThatAreRefused(t *testing.T) {
	b := newBucket(t)
	w := newWriter(t, b.client(), &Options{Prefix: "limits"})
	for _, wrong := range []string{"", "/a", "../a", "a/../../b", "a//b", "a/", ".", "a\\b", "a\nb", "a\x00", strings.Repeat("a", 1020), "\xff"} {
		assert.ErrorContains(t, w.Put(t.Context(), wrong, nil), "name", "%q", wrong)
	}
	assert.Empty(t, b.requests)
}

func TestBadInput(t *testing.T) {
	client := newBucket(t).client()
	for field, test := range map[string]struct {
		client S3
		bucket string
		opts   Options
	}{
		"client": {nil, "b", Options{}}, "invalid client": {(*s3.Client)(nil), "b", Options{}}, "bucket": {client, "", Options{}},
		"options.KMSKey": {client, "b", Options{KMSKey: "k"}}, "options.Owner": {client, "b", Options{Owner: "me"}},
		"options.Prefix": {client, "b", Options{Prefix: "../x"}},
	} {
		_, err := New(test.client, test.bucket, &test.opts)
		assert.ErrorContains(t, err, field)
	}
}
