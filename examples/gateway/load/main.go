// Command load holds many streams of a gateway open at once, and prints their outcomes.
//
//	go run ./examples/gateway/load -streams 1000
//
// With -provide it is also the gateway's provider, and its streams go on until all have been open
// for 5 seconds; with -pid it then prints the resident memory of the gateway's process.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// main opens -streams streams at once, -rounds times. It prints the gateway's memory for a stream
// and the times to the first byte.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	url := flag.String("url", "http://127.0.0.1:8080", "the gateway's `URL`")
	key := flag.String("key", "sk-a", "the key of the calls")
	model := flag.String("model", "gpt-4.1-mini", "the model of the calls")
	streams := flag.Int("streams", 100, "how many streams are open at once")
	rounds := flag.Int("rounds", 1, "how often each is opened")
	provide := flag.String("provide", "", "the address to be the provider at")
	pid := flag.Int("pid", 0, "the gateway's process, to be measured")
	flag.Parse()
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = *streams //nolint:forcetypeassert // it is one

	allOpen := make(chan struct{})
	if *provide != "" {
		listener, err := net.Listen("tcp", *provide)
		if err != nil {
			fmt.Fprintln(os.Stderr, "load:", err)
			os.Exit(1)
		}
		go func() { _ = http.Serve(listener, provider(allOpen)) }() //nolint:gosec // for as long as this runs
	}
	var opened sync.WaitGroup
	opened.Add(*streams)
	before := resident(*pid)
	go func() {
		opened.Wait()
		<-time.After(5 * time.Second)
		if now := resident(*pid); now > 0 {
			fmt.Printf("resident: %d KiB, and before %d: %.1f a stream\n", now, before, float64(now-before)/float64(*streams))
		}
		close(allOpen)
	}()

	var mu sync.Mutex
	var first []time.Duration
	ended := map[string]int{}
	began := time.Now()
	var group sync.WaitGroup
	for range *streams {
		group.Go(func() {
			for round := range *rounds {
				took, how := openStream(ctx, *url, *key, *model, func() {
					if round == 0 {
						opened.Done()
					}
				})
				mu.Lock()
				first, ended[how] = append(first, took), ended[how]+1
				if n := len(first); n%100 == 0 {
					fmt.Printf("%d of %d\r", n, *streams**rounds)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	slices.Sort(first)
	at := func(p float64) time.Duration { return first[int(p*float64(len(first)-1))].Round(time.Microsecond) }
	fmt.Printf("%d calls in %v, ended: %v\nfirst byte: p50 %v, p99 %v\n", len(first), time.Since(began).Round(time.Millisecond), ended, at(0.5), at(0.99))
}

// provider returns a handler that streams a piece of a reply each half a second. It sends the usage
// and ends once end is closed.
func provider(end <-chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for ticks := time.Tick(time.Second / 2); ; {
			_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}`+"\n\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-ticks:
			case <-end:
				_, _ = io.WriteString(w, `data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3}}`+"\n\ndata: [DONE]\n\n")
				return
			case <-r.Context().Done():
				return
			}
		}
	})
}

// resident returns the resident memory of a process in KiB, from Linux's /proc. It returns 0 if
// that is unknown.
func resident(pid int) (kib int) {
	status, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	_, _ = fmt.Sscan(rest, &kib)
	return kib
}

// openStream makes one streaming call and reads it to the end. It calls opened after the response's headers or
// a failed request. It returns the time until then, and the status or a word for the failure.
func openStream(ctx context.Context, url, key, model string, opened func()) (first time.Duration, how string) {
	began := time.Now()
	body := `{"model":"` + model + `","stream":true,"max_tokens":20,"messages":[{"role":"user","content":"Hi"}]}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	r.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(r)
	first = time.Since(began)
	opened()
	if err != nil {
		return first, "no answer"
	}
	defer res.Body.Close()
	if _, err = io.Copy(io.Discard, res.Body); err != nil {
		return first, "broken"
	}
	return first, res.Status
}
