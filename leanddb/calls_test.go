package leanddb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
)

// surroundings are the provider of credentials, the retryer and the HTTP client of one call. They log how
// they are asked. The call's context ends at one of these events.
type surroundings struct {
	// answers are the names of answerCases, credentials kinds of credentials. The last one stays.
	answers, credentials []string
	// endAt is the event at which the context ends; empty for never.
	endAt string
	end   context.CancelFunc
	// firstToken is an error in place of the first token.
	firstToken error
	// isStandard means the SDK's standard retryer, which logs nothing.
	isStandard bool
	log        []string
	events     map[string]int
	// open counts answers that nobody has closed.
	open int
}

// record logs an event with its number, and returns the number.
func (s *surroundings) record(kind string, details ...any) int {
	s.events[kind]++
	name := fmt.Sprint(kind, " ", s.events[kind])
	s.log = append(s.log, fmt.Sprintln(append([]any{name}, details...)...))
	if s.endAt == name {
		s.end()
	}
	return s.events[kind]
}

// pick returns the element with a number from 1, or the last one.
func pick(list []string, n int) string { return list[min(n, len(list))-1] }

// Retrieve implements aws.CredentialsProvider.
func (s *surroundings) Retrieve(context.Context) (aws.Credentials, error) {
	n := s.record("retrieve")
	switch pick(s.credentials, n) {
	case "missing":
		return aws.Credentials{}, errors.New("no credentials yet")
	case "rotated":
		return aws.Credentials{AccessKeyID: fmt.Sprint("AKIA", n), SecretAccessKey: fmt.Sprint("secret", n), SessionToken: fmt.Sprint("token", n)}, nil
	case "empty":
		return aws.Credentials{}, nil
	}
	return aws.Credentials{AccessKeyID: "AKIATEST", SecretAccessKey: "a secret"}, nil
}

// Do implements aws.HTTPClient.
func (s *surroundings) Do(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		s.record("ended before it was sent")
		return nil, err
	}
	id, _, _ := strings.Cut(r.Header.Get(authorizationField), "/")
	n := s.record("send", id, r.Header.Get(attemptField))
	one := script{outcomes: []outcome{answerCases[pick(s.answers, n)].outcome}}
	answer, err := one.Do(r)
	if answer != nil {
		s.open++
		answer.Body = &countedBody{answer.Body, s}
	}
	return answer, err
}

// countedBody is a body that counts as open until it is closed.
type countedBody struct {
	io.Reader
	of *surroundings
}

// Close implements io.Closer.
func (c *countedBody) Close() error {
	if c.of != nil {
		c.of.open--
	}
	c.of = nil
	return nil
}

// IsErrorRetryable implements aws.Retryer.
func (s *surroundings) IsErrorRetryable(err error) bool {
	s.record("retryable", err)
	return !errors.As(err, new(*types.ConditionalCheckFailedException))
}

// MaxAttempts implements aws.Retryer.
func (s *surroundings) MaxAttempts() int { return 3 }

// RetryDelay implements aws.Retryer.
func (s *surroundings) RetryDelay(int, error) (time.Duration, error) {
	s.record("delay")
	return time.Millisecond, nil
}

// GetRetryToken implements aws.Retryer.
func (s *surroundings) GetRetryToken(_ context.Context, err error) (func(error) error, error) {
	s.record("retry token", err)
	return s.releaser("retry release"), nil
}

// GetInitialToken implements aws.Retryer.
func (s *surroundings) GetInitialToken() func(error) error { panic("not asked for") }

// GetAttemptToken implements aws.RetryerV2.
func (s *surroundings) GetAttemptToken(context.Context) (func(error) error, error) {
	if n := s.record("token"); n == 1 && s.firstToken != nil {
		return nil, s.firstToken
	}
	return s.releaser("release"), nil
}

func (s *surroundings) releaser(kind string) func(error) error {
	return func(err error) error {
		s.record(kind, err)
		return nil
	}
}

// history is the result of a call, and how it asked its surroundings. The order of the events is not
// compared: this package asks whether a failed condition is retryable before it releases the token.
type history struct {
	told
	Log []string
	// Open counts answers that are not closed, and Refused templates that are.
	Open, Refused int
}

// runCall makes a call in surroundings, after an earlier one if isWarm.
func runCall(ctx context.Context, s surroundings, isLean, isWarm bool) (h history) {
	options := newOptions(&s)
	options.Credentials, options.Retryer = &s, &s
	if s.isStandard {
		options.Retryer = retry.NewStandard()
	}
	client := New(dynamodb.New(options))
	update := client.Client.UpdateItem
	if isLean {
		update = client.UpdateItem
	}
	if isWarm {
		call := s
		for _, kind := range []string{"static", "rotated"} {
			s = surroundings{answers: []string{"no item"}, credentials: []string{kind}, events: map[string]int{}}
			_, _ = update(ctx, plainUpdate()) // its request makes a template
		}
		s = call
	}
	s.events = map[string]int{}
	ctx, s.end = context.WithCancel(ctx)
	defer s.end()
	out, err := update(ctx, plainUpdate(), func(*dynamodb.Options) { s.record("options") })
	slices.Sort(s.log)
	h = history{told: toldOf(out, err), Log: s.log, Open: s.open}
	for _, template := range *client.templates.Load() {
		if template.refused {
			h.Refused++
		}
	}
	return h
}

// The SDK goes on with the token, the credentials and the outcome of the first try, so that nothing happens
// twice, whatever is missing or ends meanwhile.
func TestCallsAreTheSDKs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		check := func(s surroundings) {
			for _, isWarm := range []bool{false, true} {
				require.Equal(t, runCall(t.Context(), s, false, isWarm), runCall(t.Context(), s, true, isWarm), "%+v, warm: %v", s, isWarm)
			}
		}
		ends := []string{"", "options 1"}
		for _, kind := range []string{"token", "retrieve", "send", "release", "retryable", "retry token", "delay", "retry release"} {
			ends = append(ends, kind+" 1", kind+" 2")
		}
		for _, answer := range []string{"success", "failed condition", "throttled", "server error", "connection", "timeout", "cut", "capacity"} {
			answers := []string{answer, "failed condition"}
			for _, end := range []string{"", "token 1"} {
				check(surroundings{answers: answers, credentials: []string{"static"}, endAt: end, firstToken: errors.New("no token")})
			}
			for _, credentials := range [][]string{{"static"}, {"rotated"}, {"empty"}, {"missing"}, {"missing", "static"}, {"static", "missing"}, {"rotated", "static"}} {
				for _, end := range ends {
					check(surroundings{answers: answers, credentials: credentials, endAt: end})
					check(surroundings{answers: answers, credentials: credentials, endAt: end, isStandard: true})
				}
			}
		}
	})
}
