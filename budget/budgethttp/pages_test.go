package budgethttp

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// shortPages is a store that answers queries five items at a time, and some pages with none.
type shortPages struct {
	next  aws.HTTPClient
	mu    sync.Mutex
	empty int // pages of nothing that are left; below 0: all
}

// Do implements aws.HTTPClient.
func (s *shortPages) Do(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".Query") {
		return s.next.Do(r)
	}
	var query map[string]any
	if err := json.NewDecoder(r.Body).Decode(&query); err != nil {
		return nil, err
	}
	if start, ok := query["ExclusiveStartKey"]; ok && s.nothing() {
		return answerOf(r, map[string]any{"Count": 0, "Items": []any{}, "LastEvaluatedKey": start})
	}
	query["Limit"] = 5
	body, err := json.Marshal(query)
	if err != nil {
		return nil, err
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return s.next.Do(r)
}

// nothing reports whether a page is left that has none.
func (s *shortPages) nothing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.empty == 0 {
		return false
	}
	s.empty--
	return true
}

// answerOf is an answer that the store has not given.
func answerOf(r *http.Request, text any) (*http.Response, error) {
	body, err := json.Marshal(text)
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}, err
}
