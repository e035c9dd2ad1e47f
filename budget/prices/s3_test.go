package prices

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/budget"
)

// documented are the credentials and the time of the examples in the manual of S3.
func documented() S3 {
	return S3{
		Bucket: "examplebucket", Key: "test.txt", Region: "us-east-1",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "AKIAIOSFODNN7EXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}, nil
		}),
		Now: func() time.Time { return time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC) },
	}
}

// TestS3SignsAsItsManualDoes: "GET Object" of its examples of signatures.
func TestS3SignsAsItsManualDoes(t *testing.T) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://examplebucket.s3.amazonaws.com/test.txt", http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Range", "bytes=0-9")
	require.NoError(t, documented().sign(t.Context(), request))
	assert.Equal(t, "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "+
		"SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "+
		"Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41", request.Header.Get("Authorization"))
}

func TestS3AsksWhetherThereIsANewList(t *testing.T) {
	var asked []*http.Request
	address, transport := served(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r)
		w.Header().Set("ETag", `"v1"`)
		if r.Header.Get("If-None-Match") == `"v1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, oneModel)
	})
	source := documented()
	source.Endpoint, source.Transport, source.Key = address, transport, "prices/of day+1 (a=b).json"
	body, tag, err := source.Open(t.Context(), "")
	require.NoError(t, err)
	text, err := io.ReadAll(body)
	require.NoError(t, err)
	require.NoError(t, body.Close())
	assert.Equal(t, oneModel, string(text))
	_, again, err := source.Open(t.Context(), tag)
	require.ErrorIs(t, err, ErrNotModified)
	assert.Equal(t, `"v1"`, again)
	require.Len(t, asked, 2)
	assert.Equal(t, "/examplebucket/prices/of%20day%2B1%20%28a%3Db%29.json", asked[0].URL.EscapedPath(), "as it is signed")
	assert.Contains(t, asked[1].Header.Get("Authorization"), "SignedHeaders=host;if-none-match;x-amz-content-sha256;x-amz-date, ")
	keeper := &imports{}
	r, err := New(keeper, source, nil)
	require.NoError(t, err)
	for range 2 {
		_, err = r.Refresh(t.Context())
		require.NoError(t, err)
	}
	assert.Len(t, keeper.lists, 2)
}

func TestS3IsWhereItsRegionSays(t *testing.T) {
	for want, s := range map[string]S3{
		"https://examplebucket.s3.us-east-1.amazonaws.com/test.txt":     {},
		"https://examplebucket.s3.cn-north-1.amazonaws.com.cn/test.txt": {Region: "cn-north-1"},
		"https://s3.us-east-1.amazonaws.com/a.b/test.txt":               {Bucket: "a.b"},
		"http://127.0.0.1:9000/examplebucket/test.txt":                  {Endpoint: "http://127.0.0.1:9000"},
		"https://examplebucket.s3.us-east-1.amazonaws.com/a/%C3%BC/%3F": {Key: "a/ü/?"},
	} {
		source := documented()
		for _, field := range []struct {
			to   *string
			from string
		}{{&source.Region, s.Region}, {&source.Bucket, s.Bucket}, {&source.Endpoint, s.Endpoint}, {&source.Key, s.Key}} {
			if field.from != "" {
				*field.to = field.from
			}
		}
		address, err := source.address()
		require.NoError(t, err)
		assert.Equal(t, want, address.String())
	}
}

func TestS3IsRefusedWithoutWhatItNeeds(t *testing.T) {
	for field, spoil := range map[string]func(*S3){
		"bucket":      func(s *S3) { s.Bucket = "evil.example.org/x" },
		"key":         func(s *S3) { s.Key = "" },
		"region":      func(s *S3) { s.Region = "us-east-1.evil.example.org" },
		"credentials": func(s *S3) { s.Credentials = nil },
		"endpoint":    func(s *S3) { s.Endpoint = "127.0.0.1:9000" },
	} {
		source := documented()
		spoil(&source)
		_, _, err := source.Open(t.Context(), "")
		var bad *budget.ValidationError
		require.ErrorAs(t, err, &bad, field)
		assert.Equal(t, field, bad.Field)
	}
	expired := errors.New("expired")
	source := documented()
	source.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, expired })
	_, _, err := source.Open(t.Context(), "")
	require.ErrorIs(t, err, expired)
}

// TestS3FollowsNoRedirect: a signature is for one host, and says for how long.
func TestS3FollowsNoRedirect(t *testing.T) {
	asked := 0
	address, transport := served(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	source := documented()
	source.Endpoint, source.Transport = address, transport
	_, _, err := source.Open(t.Context(), "")
	var status *StatusError
	require.ErrorAs(t, err, &status)
	assert.Equal(t, http.StatusTemporaryRedirect, status.Status)
	require.ErrorContains(t, err, "another region than us-east-1")
	assert.Equal(t, 1, asked)
}
