package ddbmem

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// maxBody is the most a request may hold; DynamoDB's own limit is 16 MB.
const maxBody = 16 << 20

const contentType = "application/x-amz-json-1.0"

// answer is the answer to a request: an HTTP status and a body.
type answer struct {
	status int
	body   []byte
	seq    int64
}

// Do executes a request of the AWS JSON 1.0 protocol in process, which makes a DB an aws.HTTPClient. An error
// of the API is an answer. Do fails if the request's context ends, for a fault of the network, or if New did
// not make db.
func (db *DB) Do(req *http.Request) (*http.Response, error) {
	if !db.isMade() {
		return nil, errNotMade
	}
	body, err := readBody(req.Body, req.ContentLength)
	if err != nil {
		return nil, err
	}
	a, err := db.serve(req.Context(), req.Header.Get("X-Amz-Target"), body)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status:        strconv.Itoa(a.status) + " " + http.StatusText(a.status),
		StatusCode:    a.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        db.answerHeader(a),
		Body:          io.NopCloser(bytes.NewReader(a.body)),
		ContentLength: int64(len(a.body)),
		Request:       req,
	}, nil
}

// ServeHTTP serves DynamoDB clients of any region and credentials, and checks no signatures. A fault of the
// network closes the connection without an answer. A body above 16 MB gets status 413.
func (db *DB) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !db.isMade() {
		http.Error(w, errNotMade.Error(), http.StatusInternalServerError)
		return
	}
	body, err := readBody(http.MaxBytesReader(w, r.Body, maxBody), r.ContentLength)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		http.Error(w, "the request is larger than 16 MB", http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
	a, err := db.serve(r.Context(), r.Header.Get("X-Amz-Target"), body)
	if err != nil {
		panic(http.ErrAbortHandler) // closes the connection without an answer
	}
	for name, values := range db.answerHeader(a) {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // a client that left gets nothing
}

// readBody reads the whole body and closes it; nil for a nil body. A positive length, the Content-Length, saves
// reallocations. It fails if the body is shorter than its length or breaks off.
func readBody(body io.ReadCloser, length int64) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	defer body.Close()
	if length > 0 && length <= maxBody {
		data := make([]byte, length)
		_, err := io.ReadFull(body, data)
		return data, err
	}
	return io.ReadAll(body)
}

// answerHeader returns the headers of an answer: content type and length, a CRC-32 for the SDK, the request's
// id, and the DB's clock as Date.
func (db *DB) answerHeader(a answer) http.Header {
	return http.Header{
		"Content-Type":     {contentType},
		"Content-Length":   {strconv.Itoa(len(a.body))},
		"Date":             {db.engine.now().UTC().Format(http.TimeFormat)},
		"X-Amz-Crc32":      {strconv.FormatUint(uint64(crc32.ChecksumIEEE(a.body)), 10)},
		"X-Amzn-Requestid": {requestID(a.seq)},
	}
}

// requestID returns seq as 52 characters in base 32, the form of DynamoDB's request ids.
func requestID(seq int64) string {
	id := []byte(strings.Repeat("0", 52))
	const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUV"
	for i := len(id) - 1; seq > 0; i-- {
		id[i] = alphabet[seq%32]
		seq /= 32
	}
	return string(id)
}

// serve counts one request and answers it after its injected latencies: by executing it, or with its fault.
// target is the header X-Amz-Target. An error of the API is an answer; serve fails if ctx ends or a fault
// breaks the connection.
func (db *DB) serve(ctx context.Context, target string, body []byte) (answer, error) {
	seq := db.requests.Add(1)
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	version, operation, _ := strings.Cut(target, ".")
	if failure := unknownOperation(version, operation); failure != nil {
		return failedAnswer(seq, failure), nil
	}
	db.counters[operation].requests.Add(1)
	f := db.chooseFault(ctx, seq, operation, body)
	if err := pauseFor(ctx, f.Before); err != nil {
		return answer{}, err
	}
	switch {
	case f.Error != nil:
		return failedAnswer(seq, f.Error), nil //nolint:nilerr // an error of the API is an answer
	case f.Drop:
		return answer{}, errReset()
	case f.Late != nil:
		db.executeLater(f, operation, seq, body)
		return answer{}, errReset()
	}
	out, failure := db.execute(operation, seq, body, f.Unprocessed)
	a := answer{http.StatusOK, out, seq}
	if failure != nil {
		a.status = failure.Status
	}
	if err := pauseFor(ctx, f.After); err != nil {
		return answer{}, err
	}
	if f.Lose {
		return answer{}, errReset()
	}
	return a, nil
}

// failedAnswer returns the HTTP answer of an error of the API, with its defaults filled in.
func failedAnswer(seq int64, e *Error) answer {
	e = e.withDefaults()
	return answer{e.Status, e.append(nil), seq}
}

// unknownOperation returns the error for an operation that does not exist or that ddbmem does not support,
// and nil for one of handlers. The version is the part of X-Amz-Target before the dot.
func unknownOperation(version, operation string) *Error {
	_, known := handlers[operation]
	switch {
	case version != "DynamoDB_20120810" && version != "DynamoDBStreams_20120810" || operation == "":
		return newError("UnknownOperationException", "the X-Amz-Target header names no operation of DynamoDB")
	case !known:
		return unsupportedError(operation)
	}
	return nil
}
