package lock

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// room is a table in which holders meet.
type room struct {
	t  *testing.T
	db *ddbmem.DB
}

// caller names whose request it is, in its context.
type caller struct{}

func newRoom(t *testing.T) *room {
	t.Helper()
	db := ddbmem.New()
	t.Cleanup(db.Close)
	name, hash, sort := "limits", schema.PK, schema.SK
	_, err := db.Client().CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: &hash, KeyType: types.KeyTypeHash}, {AttributeName: &sort, KeyType: types.KeyTypeRange}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &hash, AttributeType: types.ScalarAttributeTypeS}, {AttributeName: &sort, AttributeType: types.ScalarAttributeTypeS}},
	})
	require.NoError(t, err)
	return &room{t, db}
}

// lock is a try of somebody whose clock is off by so much.
func (r *room) lock(holder string, off time.Duration) *Lock {
	return &Lock{
		Table: &table.Table{Client: r.db.Client(), Name: "limits"}, Key: schema.Keys{}.Lease("manifest"), Name: "manifest",
		Holder: holder, Hold: time.Minute, Now: func() time.Time { return time.Now().Add(off) },
	}
}

// faults are those of one caller's requests of an operation; nil for all faults' end.
func (r *room) faults(who, operation string, f func() ddbmem.Fault) {
	r.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
		if q.Operation == operation && q.Context.Value(caller{}) == who {
			return f()
		}
		return ddbmem.Fault{}
	})
}

func (r *room) ctx(who string) context.Context {
	return context.WithValue(r.t.Context(), caller{}, who)
}

func (r *room) stored() schema.Lease {
	r.t.Helper()
	l := r.lock("", 0)
	stored, _, err := l.readLease(r.t.Context(), "test")
	require.NoError(r.t, err)
	return stored
}

// works is something that takes so long, unless its context ends.
func works(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func inBubble(t *testing.T, test func(t *testing.T, r *room)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newRoom(t)) })
}

// Of two who want to be alone one is, and the other is told who, or waits.
func TestOneOfTwoIsAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, r *room) {
		began := time.Now()
		err := r.lock("ann", 0).Do(t.Context(), 0, nil, func(ctx context.Context) error {
			err := r.lock("ben", 0).Do(ctx, 0, nil, works(0))
			held, ok := errors.AsType[*fault.LockedError](err)
			if assert.True(t, ok, "%v", err) {
				assert.Equal(t, "ann", held.Holder)
				assert.True(t, began.Add(time.Minute+Margin).Equal(held.Until), held.Until)
			}
			looks := 0
			err = r.lock("ben", 0).Do(ctx, 3*time.Second, func(e *fault.LockedError) {
				looks++
				assert.Equal(t, "ann", e.Holder)
			}, works(0))
			require.ErrorIs(t, err, fault.ErrLocked)
			assert.Equal(t, 3, looks)
			assert.Equal(t, 3*time.Second, time.Since(began))
			return works(10 * time.Minute)(ctx)
		})
		require.NoError(t, err, "renewed for as long as it takes")
		require.NoError(t, r.lock("ben", 0).Do(t.Context(), 0, nil, works(0)), "released")
		failed := errors.New("failed")
		assert.Equal(t, failed, r.lock("ben", 0).Do(t.Context(), 0, nil, func(context.Context) error { return failed }))
	})
}

// Of two who read that the lease is free, before either takes it, one takes it.
func TestOneOfTwoTakersAtOnceWins(t *testing.T) {
	inBubble(t, func(t *testing.T, r *room) {
		r.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			if q.Operation == "TransactWriteItems" {
				return ddbmem.Fault{Before: time.Second}
			}
			return ddbmem.Fault{}
		})
		errs := make(chan error, 2)
		for _, who := range []string{"ann", "ben"} {
			go func() { errs <- r.lock(who, 0).Take(t.Context()) }()
		}
		first, last := <-errs, <-errs
		if first != nil {
			first, last = last, first
		}
		require.NoError(t, first)
		require.ErrorIs(t, last, fault.ErrLocked)
	})
}

// A lease that is renewed between a taker's look and its take is not taken.
func TestATakeSeesARenewal(t *testing.T) {
	inBubble(t, func(t *testing.T, r *room) {
		ann := r.lock("ann", 0)
		require.NoError(t, ann.Take(t.Context()))
		<-time.After(ann.Hold + Margin)
		r.faults("ben", "TransactWriteItems", func() ddbmem.Fault { return ddbmem.Fault{Before: time.Second} })
		done := make(chan error, 1)
		go func() { done <- r.lock("ben", 0).Take(r.ctx("ben")) }()
		synctest.Wait()
		require.NoError(t, ann.Renew(t.Context()))
		require.ErrorIs(t, <-done, fault.ErrLocked)
		assert.Equal(t, "ann", r.stored().Holder)
	})
}

func TestWhoeverWaitsIsNextAndStopsWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T, r *room) {
		began := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			assert.NoError(t, r.lock("ann", 0).Do(t.Context(), 0, nil, works(90*time.Second)))
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // it ends with a look, or between two
		defer cancel()
		err := r.lock("cid", 0).Do(ctx, time.Hour, nil, works(0))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, fault.ErrLocked)
		require.NoError(t, r.lock("ben", 0).Do(t.Context(), time.Hour, nil, func(context.Context) error {
			took := time.Since(began)
			assert.GreaterOrEqual(t, took, 90*time.Second)
			assert.Less(t, took, 92*time.Second)
			return nil
		}))
		<-done
	})
}

// Whoever waits does so for as long as was asked for, whatever it learns about DynamoDB's
// clock meanwhile.
func TestWaitingIsNotByAClockThatSteps(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, 20 * time.Second} {
		inBubble(t, func(t *testing.T, r *room) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				assert.NoError(t, r.lock("ann", 0).Do(t.Context(), 0, nil, works(30*time.Second)))
			}()
			synctest.Wait()
			ben := r.lock("ben", 0)
			off := time.Duration(0)
			ben.Now = func() time.Time { return time.Now().Add(off) }
			began := time.Now()
			err := ben.Do(t.Context(), 10*time.Second, func(*fault.LockedError) { off = step }, works(0))
			require.ErrorIs(t, err, fault.ErrLocked)
			assert.Equal(t, 10*time.Second, time.Since(began), step)
			<-done
		})
	}
}

// The lease of a holder who died ends by itself: not before its end and the margin.
func TestTheLeaseOfTheDeadEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, r *room) {
		began := time.Now()
		require.NoError(t, r.lock("ann", 0).Take(t.Context())) // and is never heard of again
		require.NoError(t, r.lock("ben", 0).Do(t.Context(), time.Hour, nil, func(context.Context) error {
			took := time.Since(began)
			assert.GreaterOrEqual(t, took, time.Minute+Margin)
			assert.Less(t, took, time.Minute+Margin+2*time.Second)
			return nil
		}))
	})
}

// The answer to each request may be lost: a take that was made is recognised, a renewal is
// made again, and a release that was made is one.
func TestLostAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		lost int // the tries of the SDK whose answers are lost, all but the first of these
		at   time.Duration
	}{
		"take, once":        {1, 0},
		"take, all tries":   {3, 0},
		"renewal, once":     {1, 19 * time.Second},
		"renewal, twice":    {6, 19 * time.Second},
		"release, once":     {1, 85 * time.Second},
		"release, all made": {3, 85 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *room) {
				began, lost := time.Now(), 0
				r.faults("ann", "TransactWriteItems", func() ddbmem.Fault {
					if time.Since(began) < test.at || lost == test.lost {
						return ddbmem.Fault{}
					}
					lost++
					return ddbmem.Fault{Lose: true}
				})
				done := false
				require.NoError(t, r.lock("ann", 0).Do(r.ctx("ann"), 0, nil, func(ctx context.Context) error {
					done = true
					return works(90 * time.Second)(ctx)
				}))
				assert.True(t, done)
				assert.Equal(t, test.lost, lost)
				assert.Empty(t, r.stored().Token, "released")
			})
		})
	}
}

// A take whose request is lost may be made later: nothing is done, and it is given back.
func TestATakeThatMayHaveBeenMadeIsGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, r *room) {
		late := make(chan struct{})
		requests := 0
		r.faults("ann", "TransactWriteItems", func() ddbmem.Fault {
			if requests++; requests <= 3 {
				return ddbmem.Fault{Drop: true}
			}
			return ddbmem.Fault{}
		})
		never := func(context.Context) error { return errors.New("called") }
		err := r.lock("ann", 0).Do(r.ctx("ann"), 0, nil, never)
		require.True(t, isUnconfirmed(err), "%v", err)
		assert.Empty(t, r.stored().Token)

		requests = 0
		r.faults("ann", "TransactWriteItems", func() ddbmem.Fault {
			if requests++; requests == 1 {
				return ddbmem.Fault{Late: late}
			}
			return ddbmem.Fault{Drop: true}
		})
		err = r.lock("ann", 0).Do(r.ctx("ann"), 0, nil, never)
		require.True(t, isUnconfirmed(err), "%v", err)
		close(late)
		r.db.Wait()
		assert.NotEmpty(t, r.stored().Token, "made after all: it ends by itself")
		require.NoError(t, r.lock("ben", 0).Do(t.Context(), 2*time.Minute, nil, works(0)))

		lost := 0
		r.db.SetFaults(func(q *ddbmem.Request) ddbmem.Fault {
			switch {
			case q.Operation == "TransactWriteItems" && lost < 3:
				lost++
				return ddbmem.Fault{Lose: true}
			case q.Operation == "GetItem" && lost == 3: // the look for what became of it
				lost++
				return ddbmem.Fault{Error: &ddbmem.Error{Code: "AccessDeniedException", Message: "not now", Status: 400}}
			}
			return ddbmem.Fault{}
		})
		err = r.lock("ann", 0).Do(r.ctx("ann"), 0, nil, never)
		require.True(t, isUnconfirmed(err), "%v", err)
		assert.Empty(t, r.stored().Token, "made, and nobody knew")

		cancelled, cancel := context.WithCancel(r.ctx("ann"))
		r.faults("ann", "TransactWriteItems", func() ddbmem.Fault { cancel(); return ddbmem.Fault{After: time.Second} })
		require.ErrorIs(t, r.lock("ann", 0).Do(cancelled, 0, nil, never), context.Canceled)
		assert.Empty(t, r.stored().Token, "made, and its caller gone: released")
	})
}

// An answer that comes when the lease has all but run out is too late: nothing is done.
func TestATakeThatIsAnsweredTooLate(t *testing.T) {
	inBubble(t, func(t *testing.T, r *room) {
		r.faults("ann", "TransactWriteItems", func() ddbmem.Fault { return ddbmem.Fault{After: 55 * time.Second} })
		err := r.lock("ann", 0).Do(r.ctx("ann"), 0, nil, func(context.Context) error { return errors.New("called") })
		require.ErrorIs(t, err, fault.ErrLost)
		assert.Empty(t, r.stored().Token, "released")
	})
}

// A hold that cannot be renewed ends before anybody else can be alone, by either clock.
func TestTheHoldEndsBeforeAnybodyElseCanTakeIt(t *testing.T) {
	broken := map[string]ddbmem.Fault{
		"the table is down":      {Error: &ddbmem.Error{Code: "InternalServerError", Message: "down", Status: 500}},
		"requests are lost":      {Drop: true},
		"requests hang for ever": {Before: time.Hour},
		"answers hang for ever":  {After: time.Hour},
	}
	for name, wrong := range broken {
		for _, off := range []time.Duration{-Margin, 0, Margin} {
			t.Run(name+", other's clock off by "+off.String(), func(t *testing.T) {
				inBubble(t, func(t *testing.T, r *room) {
					began := time.Now()
					r.faults("ann", "TransactWriteItems", func() ddbmem.Fault {
						if time.Since(began) < 50*time.Second { // one renewal lands, or two
							return ddbmem.Fault{}
						}
						return wrong
					})
					var ended, taken time.Time
					done := make(chan struct{})
					go func() {
						defer close(done)
						ctx := r.ctx("ann")
						err := r.lock("ann", 0).Do(ctx, 0, nil, func(ctx context.Context) error {
							<-ctx.Done()
							ended = time.Now()
							assert.ErrorIs(t, context.Cause(ctx), fault.ErrLost)
							return nil
						})
						assert.ErrorIs(t, err, fault.ErrLost, "also if what it did ends well")
					}()
					synctest.Wait()
					require.NoError(t, r.lock("ben", off).Do(t.Context(), time.Hour, nil, func(context.Context) error {
						taken = time.Now()
						return nil
					}))
					assert.False(t, ended.IsZero(), "somebody else began first")
					assert.False(t, taken.Before(ended))
					if wrong.After == 0 { // else it is released
						assert.GreaterOrEqual(t, taken.Sub(ended), 9*time.Second)
					}
					<-done
				})
			})
		}
	}
}

// Renewals that fail for a while are made again, and nothing ends.
func TestRenewalsAreTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, r *room) {
		began := time.Now()
		r.faults("ann", "TransactWriteItems", func() ddbmem.Fault {
			if since := time.Since(began); since > time.Second && since < 42*time.Second {
				return ddbmem.Fault{Drop: true}
			}
			return ddbmem.Fault{}
		})
		require.NoError(t, r.lock("ann", 0).Do(r.ctx("ann"), 0, nil, works(5*time.Minute)))
	})
}

// A renewal whose client does not return is made again, and nothing ends.
func TestRenewalThatDoesNotReturnIsMadeAgain(t *testing.T) {
	for name, end := range map[string]func(){"panic": func() { panic("boom") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *room) {
				writes := 0
				r.faults("ann", "TransactWriteItems", func() ddbmem.Fault {
					if writes++; writes == 2 {
						end()
					}
					return ddbmem.Fault{}
				})
				require.NoError(t, r.lock("ann", 0).Do(r.ctx("ann"), 0, nil, works(5*time.Minute)))
				assert.Greater(t, writes, 3)
			})
		})
	}
}

// Whoever finds the lease taken by somebody else, which no clock within the margin can
// bring about, stops at the next renewal.
func TestALeaseThatWasTakenAway(t *testing.T) {
	inBubble(t, func(t *testing.T, r *room) {
		began := time.Now()
		err := r.lock("ann", 0).Do(t.Context(), 0, nil, func(ctx context.Context) error {
			require.NoError(t, r.lock("ben", time.Hour).Take(t.Context()))
			<-ctx.Done()
			return ctx.Err()
		})
		lost, ok := errors.AsType[*fault.LostError](err)
		require.True(t, ok, "%v", err)
		require.ErrorIs(t, err, context.Canceled, "what it returned is not lost")
		assert.Equal(t, "ben", lost.Holder)
		assert.Less(t, time.Since(began), 21*time.Second)
		assert.Equal(t, "ben", r.stored().Holder, "not released in ben's stead")
		assert.NotEmpty(t, r.stored().Token)
	})
}

// The lease is released whatever ends what is done, and a renewal that was under way does
// not bring it back.
func TestTheLeaseIsReleased(t *testing.T) {
	inBubble(t, func(t *testing.T, r *room) {
		ctx, cancel := context.WithCancel(t.Context())
		err := r.lock("ann", 0).Do(ctx, 0, nil, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, fault.ErrLost)
		assert.Empty(t, r.stored().Token)
		assert.PanicsWithValue(t, "oh", func() {
			_ = r.lock("ann", 0).Do(t.Context(), 0, nil, func(context.Context) error { panic("oh") })
		})
		assert.Empty(t, r.stored().Token)

		l := r.lock("ann", 0)
		require.NoError(t, l.Take(t.Context()))
		require.NoError(t, l.Release(t.Context()))
		require.ErrorIs(t, l.Renew(t.Context()), fault.ErrLost)
		require.NoError(t, l.Release(t.Context()), "once more")
		assert.Empty(t, r.stored().Token)
		assert.NotZero(t, r.stored().Fence)
	})
}

// A lease that cannot be read is nobody's to take.
func TestALeaseThatCannotBeRead(t *testing.T) {
	inBubble(t, func(t *testing.T, r *room) {
		l := r.lock("ann", 0)
		item := schema.EncodeLease(l.Key, schema.Lease{Token: "x", Until: 1})
		name := "limits"
		for _, wrong := range []types.AttributeValue{schema.String("soon"), nil} {
			if item["lease_until"] = wrong; wrong == nil {
				delete(item, "lease_until")
			}
			_, err := r.db.Client().PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &name, Item: item})
			require.NoError(t, err)
			require.ErrorContains(t, l.Take(t.Context()), "the item MANIFEST# #LEASE cannot be read")
		}
		_, err := r.db.Client().DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: &name})
		require.NoError(t, err)
		require.ErrorIs(t, l.Take(t.Context()), fault.ErrTable)
	})
}
