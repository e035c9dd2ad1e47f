// Command load holds many streams of a gateway open at once, and says what came of them.
//
//	go run ./examples/gateway/load -streams 1000
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	url := flag.String("url", "http://127.0.0.1:8080", "the gateway's `URL`")
	key := flag.String("key", "sk-a", "the key of the calls")
	model := flag.String("model", "gpt-4.1-mini", "the model of the calls")
	streams := flag.Int("streams", 100, "how many streams are open at once")
	rounds := flag.Int("rounds", 1, "how often each is opened")
	flag.Parse()
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = *streams //nolint:forcetypeassert // it is one

	var mu sync.Mutex
	var first []time.Duration
	ended := map[string]int{}
	began := time.Now()
	var group sync.WaitGroup
	for range *streams {
		group.Go(func() {
			for range *rounds {
				took, how := open(ctx, *url, *key, *model)
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

// open makes one call, and reads its stream to the end.
func open(ctx context.Context, url, key, model string) (first time.Duration, how string) {
	began := time.Now()
	body := `{"model":"` + model + `","stream":true,"max_tokens":20,"messages":[{"role":"user","content":"Hi"}]}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	r.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(r)
	first = time.Since(began)
	if err != nil {
		return first, "no answer"
	}
	defer res.Body.Close()
	if _, err = io.Copy(io.Discard, res.Body); err != nil {
		return first, "broken"
	}
	return first, res.Status
}
