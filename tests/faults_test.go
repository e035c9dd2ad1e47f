package tests

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// brokenWire does something to the requests that match: on any engine.
type brokenWire struct {
	next  aws.HTTPClient
	match func(operation string, body []byte) bool
	// lose executes the request and loses its answer; drop does not execute it.
	// unsent says that no connection is made.
	lose, drop, unsent bool
	// refuse answers with this error code instead of executing it.
	refuse string
	// after, if set, is called once the request has executed.
	after func()

	mu   sync.Mutex
	left int // how many times; below 0 for ever
	hits int
}

// times arms the fault for the next n requests that match.
func (f *brokenWire) times(n int) *brokenWire {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left, f.hits = n, 0
	return f
}

func (f *brokenWire) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}

func (f *brokenWire) strikes(operation string, body []byte) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 || f.match != nil && !f.match(operation, body) {
		return false
	}
	f.left--
	f.hits++
	return true
}

var errBroken = errors.New("connection reset by the test")

// Do implements aws.HTTPClient.
func (f *brokenWire) Do(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	if !f.strikes(operationOf(request), body) {
		return f.next.Do(request)
	}
	switch {
	case f.unsent:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errBroken}
	case f.drop:
		return nil, errBroken
	case f.refuse != "":
		return refusalOf(request, f.refuse), nil
	}
	response, err := f.next.Do(request)
	if f.after != nil {
		f.after()
	}
	if f.lose && err == nil {
		_ = response.Body.Close()
		return nil, errBroken
	}
	return response, err
}

func operationOf(request *http.Request) string {
	target := request.Header.Get("X-Amz-Target")
	return target[len("DynamoDB_20120810."):]
}

// refusalOf is an error answer as DynamoDB words it.
func refusalOf(request *http.Request, code string) *http.Response {
	status := http.StatusBadRequest
	if code == "InternalServerError" {
		status = http.StatusInternalServerError
	}
	body := `{"__type":"com.amazonaws.dynamodb.v20120810#` + code + `","message":"said the test"}`
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}, "X-Amzn-Requestid": {"test"}}, Body: io.NopCloser(bytes.NewReader([]byte(body))),
		ContentLength: int64(len(body)), Request: request,
	}
}

// only matches requests of the operations.
func only(names ...string) func(string, []byte) bool {
	return func(operation string, _ []byte) bool {
		for _, name := range names {
			if operation == name {
				return true
			}
		}
		return false
	}
}

// faulty is another process whose requests suffer f, which has to be armed.
func (s *process) faulty(opts *dynalimit.Options, f *brokenWire) *process {
	s.t.Helper()
	f.next = s.client().Options().HTTPClient
	return s.wired(opts, f)
}

// writesOf matches writes of one entity's bucket.
func writesOf(entity string) func(string, []byte) bool {
	return func(operation string, body []byte) bool {
		return operation == "UpdateItem" && bytes.Contains(body, []byte(`"ENTITY#`+entity+`"`))
	}
}

// throttled1 refuses a request for lack of capacity.
var throttled1 = ddbmem.Fault{Error: &ddbmem.Error{Code: "ProvisionedThroughputExceededException"}}

// silences are the ways in which a store can fail to answer.
var silences = map[string]func(*ddbmem.Request) ddbmem.Fault{
	"hang":  func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: time.Hour} },
	"reset": func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} },
	"5xx": func(*ddbmem.Request) ddbmem.Fault {
		return ddbmem.Fault{Error: &ddbmem.Error{Code: "InternalServerError"}}
	},
	"only writes": func(r *ddbmem.Request) ddbmem.Fault {
		return ddbmem.Fault{Drop: r.Operation != "GetItem" && r.Operation != "BatchGetItem"}
	},
}

// after10ms makes every request take 10 ms before it is executed.
func after10ms(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 10 * time.Millisecond} }

// outages are what counts as the store not answering.
var outages = map[string]ddbmem.Fault{
	"throttled":       throttled1,
	"request limit":   {Error: &ddbmem.Error{Code: "RequestLimitExceeded"}},
	"throttling":      {Error: &ddbmem.Error{Code: "ThrottlingException"}},
	"5xx":             {Error: &ddbmem.Error{Code: "InternalServerError"}},
	"503":             {Error: &ddbmem.Error{Code: "ServiceUnavailable"}},
	"connection lost": {Drop: true},
	"answer lost":     {Lose: true},
	"timeout":         {Before: time.Hour},
}
