package alert

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/calendar"
	"github.com/dynalimit/dynalimit/internal/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// room is a table with alerts in virtual time, and a receiver.
type room struct {
	*testing.T
	db *ddbmem.DB

	mu       sync.Mutex
	messages []Message
	// fails decides the answer to the nth message.
	fails func(n int, m Message) error
}

func (r *room) Send(_ context.Context, m Message) error {
	r.mu.Lock()
	r.messages = append(r.messages, m)
	n, fails := len(r.messages), r.fails
	r.mu.Unlock()
	if fails == nil {
		return nil
	}
	return fails(n, m)
}

// delivered counts the deliveries of each alert.
func (r *room) sent() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	sent := map[string]int{}
	for _, m := range r.messages {
		for _, a := range m.Alerts {
			sent[a.ID]++
		}
	}
	return sent
}

// inRoom runs a test in virtual time.
func inRoom(t *testing.T, do func(r *room)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := ddbmem.New()
		defer db.Close()
		repo, err := dynalimit.NewRepository(db.Client(), "limits", nil)
		require.NoError(t, err)
		require.NoError(t, repo.CreateTable(t.Context()))
		do(&room{T: t, db: db})
	})
}

// store stores alerts of n quotas at one percentage.
func (r *room) store(n, percent int) {
	r.Helper()
	day, err := calendar.WindowsOf("day", "UTC")
	require.NoError(r, err)
	for i := range n {
		a := schema.Alert{Entity: fmt.Sprint("key-", i), Resource: "all", Limit: "usd", Percent: percent, Amount: 1000, Used: int64(10 * percent), Windows: day, Window: day.At(time.Now().UnixMilli()), At: time.Now()}
		st := a.Put()
		_, err := r.db.Client().UpdateItem(r.Context(), &dynamodb.UpdateItemInput{
			TableName: aws.String("limits"), Key: a.Key().Attributes(), UpdateExpression: &st.Update, ConditionExpression: &st.Condition,
			ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values,
		})
		require.NoError(r, err)
	}
}

// run runs a deliverer for a time.
func (r *room) run(d time.Duration) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), d)
	defer cancel()
	one, err := New(r.db.Client(), "limits", r, nil)
	require.NoError(r, err)
	require.ErrorIs(r, one.Run(ctx), context.DeadlineExceeded)
}

// states counts the stored alerts by their state.
func (r *room) states() (open, sent, failed int) {
	r.Helper()
	out, err := r.db.Client().Scan(r.Context(), &dynamodb.ScanInput{TableName: aws.String("limits")})
	require.NoError(r, err)
	for _, item := range out.Items {
		if !schema.IsAlert(schema.KeyOf(item)) {
			continue
		}
		a, err := schema.DecodeAlert(item)
		require.NoError(r, err)
		switch {
		case !a.Sent.IsZero():
			sent++
		case !a.Failed.IsZero():
			failed++
		default:
			open++
		}
	}
	return open, sent, failed
}

// Many alerts at once are full messages, each alert in one of them.
func TestManyAlertsAreFewMessages(t *testing.T) {
	inRoom(t, func(r *room) {
		r.store(1000, 80)
		r.run(3 * time.Minute)
		assert.LessOrEqual(t, len(r.messages), 10)
		assert.Equal(t, 1000, r.messages[0].Open)
		sent := r.sent()
		assert.Len(t, sent, 1000)
		for id, n := range sent {
			assert.Equal(t, 1, n, id)
		}
		_, marked, _ := r.states()
		assert.Equal(t, 1000, marked)
	})
}

// A receiver that fails, hangs or answers late loses no alert. One that is down for a day has it given up, once.
func TestReceiversThatFail(t *testing.T) {
	for name, test := range map[string]struct {
		fails        func(n int, m Message) error
		before       time.Duration // from the decision to the start
		sent, failed bool
	}{
		"fails ten times": {func(n int, _ Message) error { return map[bool]error{true: errors.New("down")}[n <= 10] }, 0, true, false},
		"hangs three times": {func(n int, _ Message) error {
			<-time.After(map[bool]time.Duration{true: 9 * time.Second}[n <= 3])
			return nil
		}, 0, true, false},
		"panics": {func(n int, _ Message) error {
			if n == 1 {
				panic("sink")
			}
			return nil
		}, 0, true, false},
		"is gone":         {func(int, Message) error { return fmt.Errorf("404: %w", ErrGone) }, 0, false, true},
		"is down for 23h": {func(int, Message) error { return errors.New("down") }, 22 * time.Hour, false, false},
		"is down for 25h": {func(int, Message) error { return errors.New("down") }, 23*time.Hour + 30*time.Minute, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			inRoom(t, func(r *room) {
				r.fails = test.fails
				r.store(3, 80)
				<-time.After(test.before)
				r.run(time.Hour + time.Minute)
				_, sent, failed := r.states()
				assert.Equal(t, test.sent, sent == 3)
				assert.Equal(t, test.failed, failed == 3)
				assert.Equal(t, !test.sent && !test.failed, sent+failed == 0, "or they stay open")
			})
		})
	}
}

// A receiver that demands a wait gets no message before, also of alerts that were decided meanwhile.
func TestWaitsThatReceiversDemand(t *testing.T) {
	inRoom(t, func(r *room) {
		r.fails = func(n int, _ Message) error {
			return map[bool]error{true: &retryAfter{errors.New("busy"), 30 * time.Minute}}[n == 1]
		}
		var deliverer sync.WaitGroup
		deliverer.Go(func() { r.run(time.Hour) })
		for i := range 20 {
			r.store(1, 1+i)
			<-time.After(time.Minute)
		}
		r.mu.Lock()
		assert.Len(t, r.messages, 1)
		r.mu.Unlock()
		deliverer.Wait()
		_, sent, _ := r.states()
		assert.Equal(t, 20, sent)
	})
}

// Alerts that nobody delivered for three days are sent once, and the message says so. A process that dies before its mark
// has the alert delivered again.
func TestAlertsAfterAWeekend(t *testing.T) {
	inRoom(t, func(r *room) {
		r.store(1, 80)
		<-time.After(72 * time.Hour)
		r.fails = func(int, Message) error { return errors.New("down") }
		r.run(10 * time.Minute)
		require.Len(t, r.messages, 1)
		assert.True(t, r.messages[0].Late)
		_, _, failed := r.states()
		assert.Equal(t, 1, failed)

		r.store(1, 95)
		r.fails = nil
		r.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			return ddbmem.Fault{Drop: q.Operation == "UpdateItem" && strings.Contains(string(q.Body), "#WARNED#")}
		})
		r.run(time.Minute)
		r.db.SetFaults(nil)
		r.run(5 * time.Minute)
		_, sent, _ := r.states()
		assert.Equal(t, 1, sent)
		for id, n := range r.sent() {
			if strings.Contains(id, "#095#") {
				assert.Equal(t, 2, n, "at least once")
			}
		}
	})
}

// A lower threshold is in the message of the higher one, and before it; the highest comes first.
func TestLowerThresholdsComeFirst(t *testing.T) {
	inRoom(t, func(r *room) {
		r.store(2, 95)
		r.store(1, 50)
		r.run(time.Minute)
		require.Len(t, r.messages, 1)
		var got []string
		for _, a := range r.messages[0].Alerts {
			got = append(got, fmt.Sprint(a.Entity, " ", a.Percent))
		}
		assert.Equal(t, []string{"key-0 50", "key-0 95", "key-1 95"}, got)
	})
}

// Two deliverers deliver once: one stands by.
func TestOneDelivers(t *testing.T) {
	inRoom(t, func(r *room) {
		r.store(5, 80)
		delivering := func() string {
			holder, err := Delivering(r.Context(), r.db.Client(), "limits", time.Now())
			require.NoError(r, err)
			return holder
		}
		assert.Empty(r, delivering())
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { r.run(10 * time.Minute) })
		}
		<-time.After(5 * time.Minute)
		assert.Equal(r, "deliverer", delivering())
		both.Wait()
		<-time.After(11 * time.Minute)
		assert.Empty(r, delivering())
		for id, n := range r.sent() {
			assert.Equal(t, 1, n, id)
		}
	})
}

// For a day an alert is decided each half hour, while the receiver fails, hangs or answers late. Each is delivered.
func TestADayOfABadReceiver(t *testing.T) {
	inRoom(t, func(r *room) {
		var delivered sync.Map
		r.fails = func(n int, m Message) error {
			switch n % 4 {
			case 1:
				return errors.New("down")
			case 2:
				<-time.After(sendTimeout) // hangs until its time is over
				return context.DeadlineExceeded
			case 3:
				<-time.After(sendTimeout - time.Millisecond)
			}
			for _, a := range m.Alerts {
				delivered.Store(a.ID, true)
			}
			return nil
		}
		var deliverer sync.WaitGroup
		deliverer.Go(func() { r.run(25 * time.Hour) })
		const alerts = 48
		for i := range alerts {
			r.store(1, 1+i)
			<-time.After(30 * time.Minute)
		}
		deliverer.Wait()
		open, sent, failed := r.states()
		assert.Equal(t, []int{0, alerts, 0}, []int{open, sent, failed})
		n := 0
		delivered.Range(func(_, _ any) bool { n++; return true })
		assert.Equal(t, alerts, n)
	})
}

// The mark of a delivery costs a write, and two of the index, which lists the alert in another partition.
func TestMarkOfADeliveryCosts(t *testing.T) {
	inRoom(t, func(r *room) {
		r.store(1, 80)
		d, err := New(r.db.Client(), "limits", r, nil)
		require.NoError(r, err)
		q := &queue{entries: map[schema.Key]*entry{}}
		require.NoError(r, d.readOpen(r.Context(), q))
		message, _ := q.takeMessage(time.Now())
		q.endMessage(message, nil, time.Now())
		before := r.db.Meter()
		d.markEnded(r.Context(), q)
		used := r.db.Meter().Sub(before)
		assert.InDelta(r, 3, used.WriteUnits(), 0)
		assert.Equal(r, int64(1), used.Requests())
	})
}

// Calls every 5 minutes, as of a function of AWS Lambda, try each alert once, and say that somebody delivers. What fails, the
// next call tries again; what demands a wait gets nothing before. Each call returns soon.
func TestDeliveryByCalls(t *testing.T) {
	inRoom(t, func(r *room) {
		d, err := New(r.db.Client(), "limits", r, &Options{Holder: "function"})
		require.NoError(r, err)
		answer := func(err error) { r.fails = func(int, Message) error { return err } }
		var states [][]int
		for call := range 8 {
			switch call {
			case 0: // nothing is open
			case 1:
				r.store(250, 80)
				answer(errors.New("down"))
			case 2:
				answer(&retryAfter{errors.New("busy"), 8 * time.Minute})
			case 3: // too early
				answer(nil)
			case 5:
				r.store(1, 95)
				answer(fmt.Errorf("404: %w", ErrGone))
			case 6:
				r.store(1, 96)
				r.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
					return ddbmem.Fault{Error: map[bool]*ddbmem.Error{true: {Code: "AccessDeniedException"}}[q.Operation == "Query"]}
				})
			case 7:
				r.db.SetFaults(nil)
				answer(nil)
			}
			began, before, meter := time.Now(), len(r.messages), r.db.Meter()
			err := d.RunOnce(r.Context())
			if used := r.db.Meter().Sub(meter); call == 0 {
				assert.InDelta(r, 3, used.ReadUnits(), 0)
				assert.InDelta(r, 4, used.WriteUnits(), 0)
			}
			assert.Equal(r, call == 6, err != nil, "%d: %v", call, err)
			assert.LessOrEqual(r, time.Since(began), 20*time.Second)
			open, sent, failed := r.states()
			states = append(states, []int{len(r.messages) - before, open, sent, failed})
			<-time.After(5 * time.Minute)
			holder, err := Delivering(r.Context(), r.db.Client(), "limits", time.Now())
			require.NoError(r, err)
			assert.Equal(r, "function", holder)
		}
		assert.Equal(r, [][]int{{0, 0, 0, 0}, {3, 250, 0, 0}, {1, 250, 0, 0}, {0, 250, 0, 0}, {3, 0, 250, 0}, {1, 0, 250, 1}, {0, 1, 250, 1}, {1, 0, 251, 1}}, states)

		var other sync.WaitGroup
		other.Go(func() { r.run(time.Minute) })
		<-time.After(time.Second)
		r.store(1, 97)
		require.NoError(r, d.RunOnce(r.Context()), "another one works")
		other.Wait()
	})
	var none *Deliverer
	assert.Error(t, none.RunOnce(t.Context()))
}
