package prices

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go/encoding/httpbinding"
)

// S3 is a list in a bucket of S3. Its requests are signed; they need s3:GetObject.
type S3 struct {
	// Bucket is the bucket's name.
	Bucket string
	// Key is the object's key in it, such as "prices/data.json".
	Key string
	// Region is the bucket's, such as "eu-central-1": that of an aws.Config.
	Region string
	// Credentials sign the requests: those of an aws.Config.
	Credentials aws.CredentialsProvider
	// Endpoint is the URL of another store that speaks S3, or of a partition of AWS other
	// than China's and that of most regions; the bucket is the first part of the path there.
	// Defaults to AWS in the Region.
	Endpoint string
	// Transport sends the requests. Defaults to http.DefaultTransport.
	Transport http.RoundTripper
	// Timeout bounds a request with the reading of its answer. Defaults to 30 s.
	Timeout time.Duration
	// Now is the clock by which requests are signed. Defaults to time.Now.
	Now func() time.Time
}

// noBody is the SHA-256 of nothing.
const noBody = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// Names that may become part of a host.
var (
	bucketPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	regionPattern = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
)

// Open asks for the object with If-None-Match. It follows no redirect: S3 sends one where
// the bucket is in another region.
//
// Errors: *budget.ValidationError, ErrNotModified, *StatusError, what Credentials and the
// network say.
func (s S3) Open(ctx context.Context, tag string) (io.ReadCloser, string, error) {
	if err := s.validate(); err != nil {
		return nil, "", err
	}
	address, err := s.address()
	if err != nil {
		return nil, "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, "", fmt.Errorf("prices: %s: %w", shown(address), err)
	}
	if tag != "" {
		request.Header.Set("If-None-Match", tag)
	}
	if err := s.sign(ctx, request); err != nil {
		return nil, "", fmt.Errorf("prices: %s: no credentials: %w", shown(address), err)
	}
	client := &http.Client{Transport: s.Transport, Timeout: cmp.Or(s.Timeout, defaultTimeout), CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	body, tag, err := ask(client, request, tag)
	if status, ok := errors.AsType[*StatusError](err); ok && status.Status/100 == 3 {
		err = fmt.Errorf("%w: is the bucket in another region than %s?", err, s.Region)
	}
	return body, tag, err
}

func (s S3) validate() error {
	switch {
	case !bucketPattern.MatchString(s.Bucket):
		return invalid("bucket", "%q is not the name of a bucket", s.Bucket)
	case s.Key == "":
		return invalid("key", "is missing: give the object's key")
	case !regionPattern.MatchString(s.Region):
		return invalid("region", "%q is not a region: give the bucket's, such as eu-central-1", s.Region)
	case s.Credentials == nil:
		return invalid("credentials", "are missing: give those of an aws.Config, or use a URL for an object that anybody may read")
	}
	return nil
}

// address is the object's URL.
func (s S3) address() (*url.URL, error) {
	if s.Endpoint != "" {
		u, err := url.Parse(s.Endpoint)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return nil, invalid("endpoint", "is no URL of http or https")
		}
		return at(u.Scheme, u.Host, "/"+s.Bucket+"/"+s.Key), nil
	}
	host := "s3." + s.Region + ".amazonaws.com"
	if strings.HasPrefix(s.Region, "cn-") {
		host += ".cn"
	}
	if strings.Contains(s.Bucket, ".") { // no certificate is for the host of its name
		return at("https", host, "/"+s.Bucket+"/"+s.Key), nil
	}
	return at("https", s.Bucket+"."+host, "/"+s.Key), nil
}

// at is a URL whose path is written as S3 signs it.
func at(scheme, host, path string) *url.URL {
	return &url.URL{Scheme: scheme, Host: host, Path: path, RawPath: httpbinding.EscapePath(path, false)}
}

// sign signs a request without a body.
func (s S3) sign(ctx context.Context, request *http.Request) error {
	credentials, err := s.Credentials.Retrieve(ctx)
	if err != nil {
		return err
	}
	now := time.Now
	if s.Now != nil {
		now = s.Now
	}
	request.Header.Set("X-Amz-Content-Sha256", noBody)
	return v4.NewSigner().SignHTTP(ctx, credentials, request, noBody, "s3", s.Region, now(), func(o *v4.SignerOptions) {
		o.DisableURIPathEscaping = true // it is escaped already
	})
}
