package keeper

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/bench/internal/latency"
)

// The longest times after the end of a run in which it sends due requests and waits for answers.
const (
	patience   = 5 * time.Second
	answerTime = 20 * time.Second
)

// question is a request of the API.
type question struct {
	method, path, token string
	body                []byte
}

// questionOf returns the HTTP request for an arrival. run is part of the record's id, so that records of
// different runs are not duplicates.
func questionOf(run uint32, a arrival, t target, now time.Time) question {
	if a.kind == selection {
		return question{method: http.MethodGet, path: t.path() + "/model-selection", token: t.token}
	}
	return question{method: http.MethodPost, path: t.path() + "/usage", token: t.token, body: fmt.Appendf(nil,
		`{"request_id":"%08x-0000-4000-8000-%012x","model_label":%q,"model_id":%q,"tokens":{"input":1500,"output":800},"status":"OK","timestamp":%q}`,
		run, a.number, label, model, now.UTC().Format(time.RFC3339Nano))}
}

// ask sends a request to a keeper and returns the body of the answer. A status of 300 or more is an error.
func (p part) ask(ctx context.Context, q question) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, q.method, p.endpoint+q.path, bytes.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	r.RemoteAddr = "127.0.0.1:1" // the form of a called handler
	if q.token != "" {
		r.Header.Set("Authorization", "Bearer "+q.token)
	}
	if q.body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := p.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%d: %.300s", answer.StatusCode, body)
	}
	return body, err
}

// logIn sets the token of each target, from the first keeper. Tokens are valid in all processes.
func (f *fleet) logIn(ctx context.Context) error {
	for i, t := range f.targets {
		body, err := f.keepers[0].ask(ctx, question{
			method: http.MethodPost, path: "/api/v1/auth/token", body: fmt.Appendf(nil, `{"client_id":%q,"client_secret":%q}`, t.id, t.secret),
		})
		if err != nil {
			return err
		}
		var granted struct {
			Token string `json:"access_token"`
		}
		if err := json.Unmarshal(body, &granted); err != nil {
			return err
		}
		f.targets[i].token = granted.Token
	}
	return nil
}

// tally counts the requests of one kind.
type tally struct {
	due, done, failed, unsent int
	took                      latency.Histogram
	early                     time.Duration // the longest of the schedule's first half
	firstError                string
}

// outcome is the result of a run.
type outcome struct {
	began   time.Time
	elapsed time.Duration
	late    latency.Histogram // delay of the load behind its own schedule
	half    time.Duration     // of the schedule

	mu     sync.Mutex
	byKind [kinds]tally
}

// newOutcome returns an empty outcome that begins now.
func newOutcome() *outcome {
	o := &outcome{began: time.Now(), late: latency.New()}
	for k := range o.byKind {
		o.byKind[k].took = latency.New()
	}
	return o
}

// run makes f.Clients clients send the requests of the schedule, counts each in the outcome, and returns after
// the last answer or patience. A due request is sent as soon as a client is free, and its time counts from its
// due instant. The number id tells the records of runs apart.
func (f *fleet) run(ctx context.Context, id uint32, s *schedule) *outcome {
	ctx, cancel := context.WithTimeout(ctx, s.until+patience+answerTime)
	defer cancel()
	o := newOutcome()
	o.half = s.until / 2
	due := make(chan arrival, f.Clients)
	var group sync.WaitGroup
	for i := range f.Clients {
		group.Go(func() {
			for a := range due {
				_, err := f.keepers[i%len(f.keepers)].ask(ctx, questionOf(id, a, f.targets[a.number%len(f.targets)], time.Now()))
				o.countAnswer(a, time.Since(o.began.Add(a.due)), err)
			}
		})
	}
	f.dispatch(ctx, s, due, o)
	close(due)
	group.Wait()
	o.elapsed = time.Since(o.began)
	return o
}

// dispatch sends due arrivals to the clients. Without a free client an arrival waits, and its time
// counts from its due instant. Arrivals after the end of ctx or of patience count as unsent.
func (f *fleet) dispatch(ctx context.Context, s *schedule, due chan<- arrival, o *outcome) {
	over := o.began.Add(s.until + patience)
	for {
		a, ok := s.next()
		if !ok {
			return
		}
		if early := time.Until(o.began.Add(a.due)); early > 0 {
			f.pause(early)
			o.late.Record(time.Since(o.began.Add(a.due)))
		}
		send := ctx.Err() == nil && time.Now().Before(over)
		o.mu.Lock()
		o.byKind[a.kind].due++
		if !send {
			o.byKind[a.kind].unsent++
		}
		o.mu.Unlock()
		if send {
			due <- a
		}
	}
}

// countAnswer counts an answer or its error for the kind of a; took is its time since the due instant. It keeps
// the first error, and the longest time of the schedule's first half. It is safe for concurrent use.
func (o *outcome) countAnswer(a arrival, took time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := &o.byKind[a.kind]
	if err != nil {
		t.failed++
		if t.firstError == "" {
			t.firstError = err.Error()
		}
		return
	}
	t.done++
	t.took.Record(took)
	if a.due < o.half {
		t.early = max(t.early, took)
	}
}
