package spread

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/dynalimit/dynalimit/bench/internal/program"
	"github.com/dynalimit/dynalimit/bench/internal/subject"
)

// sample is a repeatable request of a limiter: a take of a bucket that never runs empty.
type sample struct {
	*http.Request
	body []byte
}

// sampler is an HTTP client. It keeps the last UpdateItem.
type sampler struct {
	next aws.HTTPClient
	last sample
}

// Do implements aws.HTTPClient. It sends the request, and keeps it in s.last if it is an UpdateItem.
func (s *sampler) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".UpdateItem") {
		s.last = sample{r, body}
	}
	return s.next.Do(r)
}

// newPost returns a caller of net/http alone. It sends recorded UpdateItem requests of a limiter again, in turn
// and whatever the key, and reads the answers. It first makes s.Callers buckets with keys after those of the
// limiters.
func newPost(ctx context.Context, s settings, client *http.Client) (caller, error) {
	samples := make([]sample, s.Callers)
	for i := range samples {
		keep := &sampler{next: client}
		limiter, err := openLimiter(program.NewClient(s.Endpoint, keep))
		if err != nil {
			return nil, err
		}
		for _, amount := range []int64{burst / 2, 1, 1} { // a take of a full bucket cannot be repeated
			if err := subject.CreateBucket(ctx, limiter, subject.Entity(s.Keys+1+i), amount); err != nil {
				return nil, err
			}
		}
		if err := limiter.Close(ctx); err != nil {
			return nil, err
		}
		samples[i] = keep.last
	}
	var next atomic.Int64
	return func(ctx context.Context, _ int) error {
		of := samples[int(next.Add(1))%len(samples)]
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, of.URL.String(), bytes.NewReader(of.body))
		if err != nil {
			return err
		}
		r.Header = of.Header
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			text, _ := io.ReadAll(answer.Body)
			return fmt.Errorf("the request is not repeatable: %s %s", answer.Status, text)
		}
		_, err = io.Copy(io.Discard, answer.Body)
		return err
	}, nil
}
