package aggregator

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/usage"
)

// Alert says that the use of a quota has reached a threshold (dynalimit.Limit.AlertAt). It is a plain value.
type Alert struct {
	// ID identifies the alert: equal texts are one alert, however often it comes.
	ID string
	// Namespace, Entity, Resource and Limit name the quota.
	Namespace, Entity, Resource, Limit string
	// Percent is the threshold: the used or reserved part of the quota, below 100. 100 means that a call was denied.
	Percent int
	// Shadow means that no call was denied, because the quota is in shadow. Percent is 100 then.
	Shadow bool
	// Amount is the quota with its grants in the window, and Used the used or reserved part of it, in millitokens, of
	// money in thousandths of a micro-dollar. Used may be lower again: estimates come back.
	Amount, Used int64
	// Unit is "usd" for money, else empty.
	Unit string
	// Window is "hour", "day", "week" or "month".
	Window string
	// Start is the beginning of the window, and End its end.
	Start, End time.Time
	// At is the time of the decision.
	At time.Time
	// Sent is the time of the delivery, and Failed that at which it was given up; both are zero before.
	Sent, Failed time.Time
}

// AlertDecided is an alert that a Processor decided, or could not decide.
type AlertDecided struct {
	Alert
	// Err is why the alert could not be stored: DynamoDB refused it, for example because the role lacks the
	// permission. Usage goes on. It is nil for an alert that is stored.
	Err error
}

const (
	// alertsASecond bounds the alerts that a Processor stores in a second.
	alertsASecond = 200
	// decidedKept bounds the remembered alerts of each of two generations.
	decidedKept = 50_000
)

// alertStage decides alerts: it stores each that is due, if it is absent. It remembers those that it knows to be stored.
type alertStage struct {
	client DynamoDB
	table  string
	now    func() time.Time

	mu           sync.Mutex
	recent, past map[schema.Key]bool
	// next is the time of the next write.
	next time.Time
}

// dueAlerts returns the alerts that the records show and that are not known to be stored, by the key of their
// bucket. It leaves out buckets of records among result.Failures, because those come again.
func (s *alertStage) dueAlerts(records []Record, result *Result) map[schema.Key][]schema.Alert {
	bad := map[schema.Key]bool{}
	for _, f := range result.Failures {
		bad[schema.KeyOf(f.Record.Keys)] = true
	}
	of := map[schema.Key][]usage.BucketRecord{}
	for _, r := range records {
		key := schema.KeyOf(r.Keys)
		if _, _, _, is := schema.BucketOf(key); is && !bad[key] && (schema.HasAlerts(r.Old) || schema.HasAlerts(r.New)) {
			number, _ := schema.Sequence(r.Sequence)
			of[key] = append(of[key], usage.BucketRecord{Key: key, Seq: number, Old: r.Old, New: r.New})
		}
	}
	due := map[schema.Key][]schema.Alert{}
	for key, list := range of {
		for _, a := range usage.DueAlerts(list, s.now()) {
			if !s.isRemembered(a.Key()) {
				due[key] = append(due[key], a)
			}
		}
	}
	return due
}

// decideAlerts stores the due alerts of a bucket that are absent, and remembers the stored ones. It returns its
// stored alerts and the alerts that DynamoDB refuses, each with its error; it skips the others of a refused
// window. It fails if DynamoDB does not answer until ctx ends.
func (s *alertStage) decideAlerts(ctx context.Context, due []schema.Alert) (decided []AlertDecided, err error) {
	var refusedLast *schema.Alert
	for i := range due {
		a := &due[i]
		if refusedLast != nil && a.SameWindow(refusedLast) {
			continue
		}
		mine, refused, err := s.storeIfAbsent(ctx, a)
		switch {
		case err != nil:
			return decided, err
		case refused != nil:
			decided, refusedLast = append(decided, AlertDecided{Alert(a.Shown()), refused}), a
			continue
		case mine:
			decided = append(decided, AlertDecided{Alert: Alert(a.Shown())})
		}
		s.rememberStored(a.Key())
	}
	return decided, nil
}

// storeIfAbsent reads an alert, which costs less than a put, and stores it if it is absent. mine is false if it
// was there before. The other results are those of storeAlert.
func (s *alertStage) storeIfAbsent(ctx context.Context, a *schema.Alert) (mine bool, refused, err error) {
	stored, refused, err := s.isStored(ctx, a)
	if stored || refused != nil || err != nil {
		return false, refused, err
	}
	return s.storeAlert(ctx, a)
}

// isStored reads whether an alert is in the table, eventually consistent, with retries until DynamoDB answers.
// It returns in refused the error of an answer; err means that ctx ended.
func (s *alertStage) isStored(ctx context.Context, a *schema.Alert) (stored bool, refused, err error) {
	refused, _, err = s.requestUntilAnswered(ctx, func() error {
		out, err := boundRequest(ctx, s.client.GetItem, &dynamodb.GetItemInput{TableName: &s.table, Key: a.Key().Attributes()}, ddb.WithoutRetries)
		stored = err == nil && len(out.Item) > 0
		return err
	})
	return stored, refused, err
}

// storeAlert waits for its turn and puts an alert if it is absent. mine means that this call stored it, or may
// have. refused is the error of DynamoDB's answer, and err means that ctx ended.
func (s *alertStage) storeAlert(ctx context.Context, a *schema.Alert) (mine bool, refused, err error) {
	if !s.awaitTurn(ctx) {
		return false, nil, context.Cause(ctx)
	}
	refused, unconfirmed, err := s.requestUntilAnswered(ctx, func() error {
		st := a.Put()
		_, err := boundRequest(ctx, s.client.UpdateItem, &dynamodb.UpdateItemInput{
			TableName: &s.table, Key: a.Key().Attributes(), UpdateExpression: &st.Update, ConditionExpression: &st.Condition,
			ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values,
		}, ddb.WithoutRetries)
		return err
	})
	if _, there := errors.AsType[*types.ConditionalCheckFailedException](refused); there {
		return unconfirmed, nil, nil
	}
	return refused == nil && err == nil, refused, err
}

// requestUntilAnswered makes a request until DynamoDB answers. refused is the error of an answer, and unconfirmed means
// that an earlier try may have landed. It fails when ctx ends.
func (s *alertStage) requestUntilAnswered(ctx context.Context, request func() error) (refused error, unconfirmed bool, err error) {
	for try := 0; ; try++ {
		err := request()
		verdict := ddb.Classify(err, ctx)
		switch {
		case err == nil:
			return nil, unconfirmed, nil
		case ctx.Err() == nil && (verdict.Setting || !verdict.Verdict.Unavailable()):
			return err, unconfirmed, nil
		}
		unconfirmed = unconfirmed || verdict.Verdict == ddb.Unconfirmed
		if !pauses.Pause(ctx, try) {
			return nil, unconfirmed, err
		}
	}
}

// awaitTurn waits until the next alert may be stored, at most 200 in a second. It returns false if ctx ends
// first.
func (s *alertStage) awaitTurn(ctx context.Context) bool {
	s.mu.Lock()
	now := time.Now()
	if s.next.Before(now) {
		s.next = now
	}
	wait := s.next.Sub(now)
	s.next = s.next.Add(time.Second / alertsASecond)
	s.mu.Unlock()
	return ddb.Sleep(ctx, wait)
}

// isRemembered reports whether an alert is remembered as stored, in either generation.
func (s *alertStage) isRemembered(key schema.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recent[key] || s.past[key]
}

// rememberStored notes in memory that an alert is stored. It keeps two generations of 50,000 alerts, and
// forgets the older one when the newer is full.
func (s *alertStage) rememberStored(key schema.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recent == nil || len(s.recent) >= decidedKept {
		s.recent, s.past = map[schema.Key]bool{}, s.recent
	}
	s.recent[key] = true
}
