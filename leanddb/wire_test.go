package leanddb

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Answers on the wire, whole and broken.
const (
	wholeAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 48\r\nX-Amzn-Requestid: R\r\n\r\n" + `{"Attributes":{"a":{"N":"1"},"b":{"S":"12345"}}}`
	chunked     = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1d\r\n" + `{"Attributes":{"a":{"N":"1"}}}` + "\r\n"
)

// wireFaults are what a server does with a connection after it has read a request. Silence within a body
// is not among them: when its context ends, net/http itself returns one of two errors.
var wireFaults = map[string]func(net.Conn){
	"cut":           func(net.Conn) {},
	"reset":         func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) },
	"half header":   func(c net.Conn) { fmt.Fprint(c, wholeAnswer[:30]) },
	"no body":       func(c net.Conn) { fmt.Fprint(c, strings.Split(wholeAnswer, "{")[0]) },
	"half body":     func(c net.Conn) { fmt.Fprint(c, wholeAnswer[:len(wholeAnswer)-20]) },
	"half chunk":    func(c net.Conn) { fmt.Fprint(c, chunked[:len(chunked)-9]) },
	"no last chunk": func(c net.Conn) { fmt.Fprint(c, chunked) },
	"no HTTP":       func(c net.Conn) { fmt.Fprint(c, "hello\r\n\r\n") },
	"whole":         func(c net.Conn) { fmt.Fprint(c, wholeAnswer) },
	"silence":       func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
}

// faultyServer serves one request a connection: the first good ones whole, the next by a fault, and
// those after it whole again. It returns its URL and a count of its requests.
func faultyServer(t *testing.T, good int, fault func(net.Conn)) (url string, requests chan struct{}) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	requests = make(chan struct{}, 100)
	done := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
				requests <- struct{}{}
				if n == good {
					fault(c)
				} else {
					fmt.Fprint(c, wholeAnswer)
				}
			}
			c.Close()
		}
	}()
	return "http://" + l.Addr().String(), requests
}

func TestBrokenConnectionsAreTheSDKs(t *testing.T) {
	for name, fault := range wireFaults {
		for retries, set := range map[string]func(*dynamodb.Options){
			"retries": func(*dynamodb.Options) {}, "no retries": func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} },
		} {
			t.Run(name+"/"+retries, func(t *testing.T) {
				call := func(isLean bool) (kinds []string, attributes any, requests int) {
					url, sent := faultyServer(t, 1, fault)
					transport := &http.Transport{DisableKeepAlives: true}
					options := newOptions(&http.Client{Transport: transport})
					options.BaseEndpoint = &url
					set(&options)
					client := dynamodb.New(options)
					c := New(client)
					update := client.UpdateItem
					if isLean {
						update = c.UpdateItem
					}
					_, err := update(t.Context(), plainUpdate())
					require.NoError(t, err)
					ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
					defer cancel()
					out, err := update(ctx, plainUpdate())
					for _, link := range chainOf(err) {
						kind, _, _ := strings.Cut(link, " ") // the texts have ports
						kinds = append(kinds, kind)
					}
					if out != nil {
						attributes = out.Attributes
					}
					if isLean {
						assert.False(t, (*c.templates.Load())[0].refused)
					}
					return kinds, attributes, len(sent)
				}
				wantKinds, wantAttributes, wantRequests := call(false)
				kinds, attributes, requests := call(true)
				assert.Equal(t, wantKinds, kinds)
				assert.Equal(t, wantAttributes, attributes)
				assert.Equal(t, wantRequests, requests)
			})
		}
	}
}
