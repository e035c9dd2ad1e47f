package leanddb

import (
	"bytes"
	"cmp"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// longestAnswer bounds the bytes of an answer that this package reads: an item has at most 400 kB.
const longestAnswer = 4 << 20

// readAnswer reads the body of a pending answer into w.answer, closes it and checks it as the SDK does. It
// returns false if the SDK has to read the answer. The body then still has all bytes, and the error of reading.
func (a *attempt) readAnswer(w *workspace) bool {
	r := a.response
	if r.StatusCode != http.StatusOK && r.StatusCode != http.StatusBadRequest || r.Body == nil ||
		r.ContentLength > longestAnswer || r.Header.Get("Content-Encoding") != "" || r.Header.Get("X-Amzn-ErrorType") != "" {
		return false
	}
	w.answer = w.answer[:0]
	if n := int(r.ContentLength); n > cap(w.answer) {
		w.answer = make([]byte, 0, n+bytes.MinRead) // room to read the end without growing
	}
	var err error
	for err == nil && len(w.answer) <= longestAnswer {
		if len(w.answer) == cap(w.answer) {
			w.answer = append(w.answer, 0)[:len(w.answer)]
		}
		var n int
		n, err = r.Body.Read(w.answer[len(w.answer):cap(w.answer)])
		w.answer = w.answer[:len(w.answer)+n]
	}
	switch {
	case err == nil: // too long
		rest := r.Body
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(bytes.Clone(w.answer)), rest), rest}
		return false
	case err != io.EOF:
		r.Body.Close()
		a.replaceBody(w.answer, err)
		return false
	}
	r.Body.Close()
	if !a.options.DisableValidateResponseChecksum && !matchesChecksum(w.answer, r.Header.Get("X-Amz-Crc32")) {
		a.replaceBody(w.answer, nil)
		return false
	}
	return true
}

// matchesChecksum reports whether a body has the CRC-32 that header, a decimal number, gives. It is true for an
// empty header and false for a malformed one.
func matchesChecksum(body []byte, header string) bool {
	if header == "" {
		return true
	}
	sum, err := strconv.ParseUint(header, 10, 32)
	return err == nil && uint32(sum) == crc32.ChecksumIEEE(body)
}

// replaceBody gives the pending answer a new body for the SDK: a copy of the bytes that were read. The body
// ends with err, or with io.EOF if that is nil.
func (a *attempt) replaceBody(read []byte, err error) {
	a.response.Body = io.NopCloser(io.MultiReader(bytes.NewReader(bytes.Clone(read)), &failingReader{cmp.Or(err, io.EOF)}))
}

type failingReader struct{ err error }

// Read returns 0 and the reader's error.
func (f *failingReader) Read([]byte) (int, error) { return 0, f.err }

// newConditionError returns the error of a failed condition of an UpdateItem, wrapped as the SDK does, with the
// answer and its request id.
func newConditionError(failed *types.ConditionalCheckFailedException, r *http.Response) *smithy.OperationError {
	return &smithy.OperationError{ServiceID: dynamodb.ServiceID, OperationName: "UpdateItem", Err: &awshttp.ResponseError{
		ResponseError: &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: r}, Err: failed},
		RequestID:     cmp.Or(r.Header.Get("X-Amzn-Requestid"), r.Header.Get("X-Amz-RequestId")),
	}}
}
