package s3archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"path"
	"reflect"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// longestKey is how many bytes the key of an object has at most.
const longestKey = 1024

// S3 stores objects for a Writer. *s3.Client implements it.
type S3 interface {
	// PutObject stores an object whole, or fails.
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
}

// Options configures a Writer. The zero value gives the defaults that the fields name.
type Options struct {
	// Prefix begins the key of every object, for example "limits/": tables with archives in
	// one bucket need one each. It has parts with slashes between them, and a slash
	// follows it. Defaults to "".
	Prefix string
	// Encryption is S3's encryption of objects at rest. Defaults to the bucket's setting.
	Encryption types.ServerSideEncryption
	// KMSKey is the id, ARN or alias of the key that Encryption "aws:kms" or
	// "aws:kms:dsse" uses. Defaults to the account's key for S3.
	KMSKey string
	// StorageClass is the storage class of objects. Defaults to S3's: STANDARD.
	StorageClass types.StorageClass
	// Owner is the account that the bucket belongs to, as 12 digits: where another one owns
	// it, S3 refuses. Defaults to any.
	Owner string
}

// Writer stores files as objects. Make one with New. It is safe for concurrent use.
type Writer struct {
	client  S3
	bucket  string
	options Options
}

// New returns a Writer into a bucket, by its name or the ARN of an access point. It sends
// nothing. It fails for bad input.
func New(client S3, bucket string, opts *Options) (*Writer, error) {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	switch v := reflect.ValueOf(client); {
	case client == nil || v.Kind() == reflect.Pointer && v.IsNil():
		return nil, invalid("client", "is nil; give a client of S3")
	case bucket == "":
		return nil, invalid("bucket", "is empty; give the name of a bucket")
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Writer{client, bucket, o}, nil
}

// validate returns an error for a bad option. It sets Prefix to end with a slash, unless it is empty.
func (o *Options) validate() error {
	switch {
	case o.KMSKey != "" && o.Encryption != types.ServerSideEncryptionAwsKms && o.Encryption != types.ServerSideEncryptionAwsKmsDsse:
		return invalid("options.KMSKey", `is set and Encryption is %q; set that to "aws:kms"`, o.Encryption)
	case o.Owner != "" && (len(o.Owner) != 12 || strings.Trim(o.Owner, "0123456789") != ""):
		return invalid("options.Owner", "is %q; give the 12 digits of an account", o.Owner)
	}
	if o.Prefix = strings.TrimSuffix(o.Prefix, "/"); o.Prefix == "" {
		return nil
	}
	if wrong := checkKey(o.Prefix); wrong != "" {
		return invalid("options.Prefix", "%s", wrong)
	}
	o.Prefix += "/"
	return nil
}

// invalid returns the error of an argument or option.
func invalid(field, format string, args ...any) error {
	return fmt.Errorf("s3archive: invalid "+field+": "+format, args...)
}

// checkKey returns the reason that a part of a key is invalid, or "". Services that read a bucket
// as folders give dots a meaning.
func checkKey(key string) string {
	switch {
	case key == "" || path.Clean("/"+key) != "/"+key:
		return fmt.Sprintf("%q is no path of parts with slashes between them, without \".\" and \"..\"", key)
	case strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c == '\\' || c == '\u007f' || c == '\ufffd' }):
		return fmt.Sprintf("%q has characters that keys do not have", key)
	case len(key) > longestKey:
		return fmt.Sprintf("has %d bytes; at most %d are allowed", len(key), longestKey)
	}
	return ""
}

// Put stores a file as an object, with its name behind the prefix, and replaces an object with
// the same key. S3 verifies a SHA-256 checksum, and keeps the whole file or none of
// it. The client's retryer repeats requests while S3 is busy.
func (w *Writer) Put(ctx context.Context, name string, data []byte) error {
	switch wrong := checkKey(name); {
	case w == nil || w.client == nil:
		return invalid("writer", "is nil or was not made; make one with New")
	case ctx == nil:
		return invalid("ctx", "is nil; pass context.Background() or the request's context")
	case wrong != "":
		return invalid("name", "%s", wrong)
	}
	key := w.options.Prefix + name
	if len(key) > longestKey {
		return invalid("name", "has %d bytes with its prefix; at most %d are allowed", len(key), longestKey)
	}
	_, err := w.client.PutObject(ctx, w.putRequest(key, data))
	if err != nil {
		return fmt.Errorf("s3archive: put %s into %s: %w", key, w.bucket, err)
	}
	return nil
}

// putRequest returns the request that puts an object, with its SHA-256 checksum and the options of w.
func (w *Writer) putRequest(key string, data []byte) *s3.PutObjectInput {
	digest := sha256.Sum256(data) // here, or the SDK sends it in a trailer, which not every store of objects knows
	in := &s3.PutObjectInput{
		Bucket: aws.String(w.bucket), Key: aws.String(key), Body: bytes.NewReader(data), ContentLength: aws.Int64(int64(len(data))),
		ContentType: aws.String("application/x-ndjson"), ContentEncoding: aws.String("gzip"), ChecksumSHA256: aws.String(base64.StdEncoding.EncodeToString(digest[:])),
		ServerSideEncryption: w.options.Encryption, StorageClass: w.options.StorageClass,
	}
	if w.options.KMSKey != "" {
		in.SSEKMSKeyId = aws.String(w.options.KMSKey)
	}
	if w.options.Owner != "" {
		in.ExpectedBucketOwner = aws.String(w.options.Owner)
	}
	return in
}
