package main

import (
	"net/http"
	"strings"
	"sync/atomic"
)

// requests counts what a process sends: its writes and its reads.
type requests struct {
	Writes int64 `json:"writes"`
	Reads  int64 `json:"reads"`
}

func (r requests) minus(o requests) requests { return requests{r.Writes - o.Writes, r.Reads - o.Reads} }

func (r requests) plus(o requests) requests { return requests{r.Writes + o.Writes, r.Reads + o.Reads} }

// counting is an HTTP client that counts requests.
type counting struct {
	client        *http.Client
	writes, reads atomic.Int64
}

func newCounting(goroutines int) *counting {
	t := &http.Transport{MaxIdleConnsPerHost: goroutines, MaxIdleConns: goroutines}
	return &counting{client: &http.Client{Transport: t}}
}

// Do sends a request.
func (c *counting) Do(r *http.Request) (*http.Response, error) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if operation == "UpdateItem" || operation == "PutItem" {
		c.writes.Add(1)
	} else {
		c.reads.Add(1)
	}
	return c.client.Do(r)
}

func (c *counting) count() requests { return requests{c.writes.Load(), c.reads.Load()} }
