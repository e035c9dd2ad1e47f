package dynalimit_test

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/lane"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// waysOfGoing are the ways in which a bucket goes.
var waysOfGoing = map[string]func(s *process, entity string){
	"deleted": func(s *process, entity string) { require.NoError(s.t, s.repo.DeleteEntity(s.t.Context(), entity)) },
	"expired": (*process).delete,
}

// What a lease took from a bucket that is gone is not given back to the one that
// was made after it, which began full.
func TestGiveBackGoesToTheBucketThatWasTakenFrom(t *testing.T) {
	for way, remove := range waysOfGoing {
		for ending, end := range map[string]func(s *process, lease *dynalimit.Lease) error{
			"rollback": func(s *process, lease *dynalimit.Lease) error { return lease.Rollback(s.t.Context()) },
			"settle": func(s *process, lease *dynalimit.Lease) error {
				return lease.Settle(s.t.Context(), dynalimit.Amounts{"tpm": 10})
			},
			"adjust": func(s *process, lease *dynalimit.Lease) error {
				return lease.Adjust(s.t.Context(), dynalimit.Amounts{"tpm": -80})
			},
		} {
			for _, aware := range []bool{false, true} {
				t.Run(way+" "+ending, func(t *testing.T) {
					testEngines(t, func(t *testing.T, e *engine) {
						s := newProcess(t, e, perDay(100))
						other := s.peer(perDay(100))
						lease := s.acquire("u", dynalimit.Amounts{"tpm": 90})
						remove(s, "u")
						other.acquire("u", dynalimit.Amounts{"tpm": 60})
						if aware {
							s.acquire("u", dynalimit.Amounts{"tpm": 10})
							other.acquire("u", dynalimit.Amounts{"tpm": 30})
						} else {
							other.acquire("u", dynalimit.Amounts{"tpm": 40})
						}
						require.NoError(t, end(s, lease))
						assert.Zero(t, s.level("u", "tpm"), "all of the new bucket's tokens are taken")
						assert.Equal(t, int64(100_000), s.stored("u", "tpm").Consumed)
					})
				})
			}
		}
	}
}

// A lease that took from both gives back to each what it took there, the newest
// first.
func TestLeaseOfTwoBuckets(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perDay(100))
		lease := s.acquire("u", dynalimit.Amounts{"tpm": 50})
		s.delete("u")
		s.peer(perDay(100)).acquire("u", dynalimit.Amounts{"tpm": 60})
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 20}))
		require.Equal(t, int64(20), s.level("u", "tpm"))
		require.NoError(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": -5}))
		assert.Equal(t, int64(25), s.level("u", "tpm"))
		require.NoError(t, lease.Consume(t.Context(), dynalimit.Amounts{"tpm": 10}))
		assert.Equal(t, int64(15), s.level("u", "tpm"))
		assert.Equal(t, dynalimit.Amounts{"tpm": 75}, lease.Used())
		require.NoError(t, lease.Rollback(t.Context()))
		assert.Equal(t, int64(40), s.level("u", "tpm"), "25 went back, 50 were gone with the first bucket")
		assert.Empty(t, lease.Used()["tpm"])
	})
}

// backTo gives one token back to an incarnation of u's bucket.
func (s *process) backTo(incarnation []byte) *lane.Op {
	cfg := configOf(s.limiter.own)
	return lane.NewAdjust(s.t.Context(), []plan.Signed{{Name: "tpm", Amount: -1000}}, incarnation, cfg)
}

// A process that does not know the bucket gives back to several incarnations of
// it: each gets its own.
func TestGiveBacksToSeveralBuckets(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perDay(100))
		s.acquire("u", dynalimit.Amounts{"tpm": 50})
		l := s.peer(perDay(100)).limiter.lanes.Of("u", model)
		is, was := s.image("u").Incarnation, []byte("another's")
		require.NotEmpty(t, is)
		ops := []*lane.Op{s.backTo(is), s.backTo(was), s.backTo(nil), s.backTo(is)}
		l.Submit(ops...)
		for _, o := range ops {
			<-o.Done
			require.NoError(t, o.Result.Err)
		}
		assert.Equal(t, int64(52), s.level("u", "tpm"))
	})
}

// A charge whose answer is late may have met a bucket that was made meanwhile: what it took
// there is given back there, but if the lease has taken from another one since.
func TestLateChargeOfANewBucket(t *testing.T) {
	for name, since := range map[string]bool{"nothing taken since": false, "taken since": true} {
		t.Run(name, func(t *testing.T) {
			virtual(t, &dynalimit.Options{Limits: perDay(100).Limits, CleanupTimeout: 100 * time.Millisecond}, func(t *testing.T, s *process) {
				lease := s.acquire("u", dynalimit.Amounts{"tpm": 1})
				s.db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 200 * time.Millisecond} })
				requireUnconfirmed(t, lease.Adjust(t.Context(), dynalimit.Amounts{"tpm": 50}), dynalimit.Amounts{"tpm": 50})
				elapse(50 * time.Millisecond) // its second try is under way
				s.db.SetFaults(nil)
				s.delete("u")
				s.peer(perDay(100)).acquire("u", dynalimit.Amounts{"tpm": 7})
				elapse(time.Second)
				require.Equal(t, int64(57_000), s.stored("u", "tpm").Consumed)
				doubt := s.limiter.Health().Doubt["tpm"]
				left := int64(7_000)
				if since {
					*lease.Held()[0].Incarnation = []byte("another's")
					left += 50_000
				}
				require.NoError(t, lease.Rollback(t.Context()))
				assert.Equal(t, left, s.stored("u", "tpm").Consumed)
				assert.Equal(t, left-7_000, (s.limiter.Health().Doubt["tpm"]-doubt)*milli)
			})
		})
	}
}

// Nothing but an acquire, or a charge, makes a bucket; what it makes is whole.
func TestNoGhostsAfterADeletion(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "project")
		up, down, back := s.acquire("key", dynalimit.Amounts{"tpm": 100}), s.acquire("key", dynalimit.Amounts{"tpm": 100}), s.acquire("key", dynalimit.Amounts{"tpm": 100})
		for _, id := range []string{"key", "project"} {
			s.delete(id)
		}
		require.NoError(t, down.Adjust(t.Context(), dynalimit.Amounts{"tpm": -50}))
		require.NoError(t, back.Rollback(t.Context()))
		assert.Nil(t, s.item("key"))
		assert.Nil(t, s.item("project"))
		require.NoError(t, up.Adjust(t.Context(), dynalimit.Amounts{"tpm": 900}))
		for _, id := range []string{"key", "project"} {
			assert.Equal(t, int64(9100), s.level(id, "tpm"))
			assert.Equal(t, int64(100), s.level(id, "rpm"), "every limit is there")
			assert.True(t, s.image(id).HasRefilled)
		}
		s.acquire("key", dynalimit.Amounts{"rpm": 100, "tpm": 9100})
		s.deny("key", dynalimit.Amounts{"tpm": 1})
	})
}

// A bucket that vanishes while a cascade gives back is not resurrected.
func TestNoGhostFromACompensation(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		s.family("key", "project")
		key := writesOf("key")
		f := &brokenWire{match: key}
		p := s.faulty(perMinute(), f)
		p.acquire("key", dynalimit.Amounts{"rpm": 1})
		s.acquire("project", dynalimit.Amounts{"tpm": 9900})
		f.after = func() { s.delete("key") }
		f.times(1)
		p.deny("key", dynalimit.Amounts{"tpm": 500})
		assert.Equal(t, 1, f.count())
		assert.Nil(t, s.item("key"))
	})
}

// The other's ADD on a deleted bucket leaves an item with tokens and nothing
// else. The next acquire makes it whole, in the debt it shows.
func TestGhostIsHealed(t *testing.T) {
	bothModes(t, func(t *testing.T, s *process) {
		s.family("key", "project")
		s.acquire("key", dynalimit.Amounts{"rpm": 1, "tpm": 10})
		for _, cold := range []bool{false, true} {
			for _, id := range []string{"key", "project"} {
				s.delete(id)
				s.foreignAdjust(id, 700)
				require.Zero(t, numberOf(s.item(id), "rf"))
			}
			p := s
			if cold {
				p = s.peer(&dynalimit.Options{Limits: s.limiter.own, ChargeMode: s.limiter.mode})
			}
			p.acquire("key", dynalimit.Amounts{"rpm": 1, "tpm": 500})
			for _, id := range []string{"key", "project"} {
				assert.Equal(t, int64(8800), s.level(id, "tpm"), "min(bx, bx + tk) - 500")
				assert.Equal(t, int64(99), s.level(id, "rpm"))
				assert.Equal(t, int64(8_800_000), s.effective(id, "tpm"), "and the other can use it again")
				assert.NotZero(t, s.image(id).TTL)
			}
			s.deny("key", dynalimit.Amounts{"tpm": 8801})
		}
	})
}

// A lease that meets a ghost: what it gives back is dropped, what it charges
// makes the bucket whole.
func TestLeaseMeetsAGhost(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, perMinute())
		for _, warm := range []bool{true, false} {
			down, up := s.acquire("user-1", dynalimit.Amounts{"tpm": 500}), s.acquire("user-1", dynalimit.Amounts{"tpm": 100})
			s.delete("user-1")
			s.foreignAdjust("user-1", 700)
			if warm {
				_, err := s.limiter.Check(t.Context(), "user-1", model, nil)
				require.NoError(t, err)
			}
			before := maps.Clone(s.item("user-1"))
			require.NoError(t, down.Rollback(t.Context()))
			after := s.item("user-1")
			assert.Equal(t, numberOf(before, "b_tpm_tk"), numberOf(after, "b_tpm_tk"))
			require.NoError(t, up.Adjust(t.Context(), dynalimit.Amounts{"tpm": 50}))
			assert.Equal(t, int64(9250), s.level("user-1", "tpm"))
			assert.Equal(t, int64(100), s.level("user-1", "rpm"))
			s.delete("user-1")
		}
	})
}

// A lease takes all of a limit, which then changes its kind or its unit for hours, and back. What
// the lease gives back afterwards comes off the counter alone, whether or not its process has seen
// the changes: the limit has begun two lives since.
func TestGiveBackOverAChangeAndBackFillsNothing(t *testing.T) {
	hour := dynalimit.Limit{Name: "usd", Capacity: 100, Window: "hour"}
	for name, c := range map[string]struct {
		from    int // the hour
		is, was dynalimit.Limit
	}{
		"a day, hours between":    {3, dynalimit.DailyQuota("usd", 100, "UTC"), hour},
		"a day, a bucket between": {3, dynalimit.DailyQuota("usd", 100, "UTC"), dynalimit.PerMinute("usd", 100)},
		"a month, days between":   {20, dynalimit.MonthlyQuota("usd", 100, "UTC"), dynalimit.DailyQuota("usd", 100, "UTC")},
		"a bucket, hours between": {3, dynalimit.PerDay("usd", 100), hour},
	} {
		for _, seen := range []bool{true, false} {
			t.Run(map[bool]string{true: name + ", seen", false: name + ", not seen"}[seen], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := liveProcess(t, memEngine(t), nil)
					elapse(time.Until(time.Date(2000, 1, 10, c.from, 30, 0, 0, time.UTC)))
					s.limits(admin.Scope{Everyone: true}, c.is)
					lease, by := s.acquire("key", dynalimit.Amounts{"usd": 100}), s
					if !seen {
						by = s.peer(nil)
					}
					counted := 0
					s.limits(admin.Scope{Everyone: true}, c.was)
					for range 2 {
						elapse(2 * time.Hour)
						counted += by.allowed(1, "key", "usd")
					}
					s.limits(admin.Scope{Everyone: true}, c.is)
					elapse(2 * time.Minute)
					held := by.allowed(1, "key", "usd")
					before := s.stored("key", "usd").Tokens
					require.NoError(t, by.acquire("key", dynalimit.Amounts{"usd": 10}).Rollback(t.Context()))
					assert.Equal(t, before, s.stored("key", "usd").Tokens, "a take since the change goes back")
					held += by.allowed(150, "key", "usd")
					require.NoError(t, lease.Rollback(t.Context()))
					elapse(2 * time.Second)
					held += by.allowed(150, "key", "usd")
					assert.LessOrEqual(t, held, 100, "of 100 callers hold more, all taken since the limit is what it was")
					assert.EqualValues(t, 1000*(held+counted), s.stored("key", "usd").Consumed)
				})
			})
		}
	}
}

// A bucket whose limit has changed its unit is deleted, and made again in the same millisecond. A
// process that has not seen this takes by what it knows of the old bucket, whose limit was in its
// second life. What it gives back goes to the new bucket, whose limit is in its first.
func TestGiveBackToABucketThatWasMadeInTheSameMillisecond(t *testing.T) {
	s := newProcess(t, memEngine(t), nil)
	s.limits(admin.Scope{Everyone: true}, dynalimit.Limit{Name: "usd", Capacity: 100, Window: "hour"})
	s.acquire("u", usd(1))
	s.limits(admin.Scope{Everyone: true}, dynalimit.DailyQuota("usd", 100, "UTC"))
	s.clock.advance(2 * time.Minute)
	s.acquire("u", usd(1))
	require.EqualValues(t, 1, s.stored("u", "usd").Life)
	s.delete("u")
	s.peer(nil).acquire("u", usd(10))
	lease := s.acquire("u", usd(20))
	require.Zero(t, s.stored("u", "usd").Life)
	require.NoError(t, lease.Rollback(t.Context()))
	assert.EqualValues(t, 90, s.level("u", "usd"))
	assert.EqualValues(t, 10_000, s.stored("u", "usd").Consumed)
}

// A process whose clock is ahead of DynamoDB's by less than what is corrected waits over midnight: its
// tries are decided by the instant that has surely passed, and so is its wait. It tries once early.
func TestWaitOverAWindowsBeginByAClockThatIsAhead(t *testing.T) {
	for _, ahead := range []time.Duration{0, 50 * time.Millisecond, 300 * time.Millisecond, 900 * time.Millisecond} {
		t.Run(ahead.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := liveProcess(t, memEngine(t), nil)
				s.limits(admin.Scope{Everyone: true}, dynalimit.DailyQuota("usd", 100, "UTC"))
				yes, looks := true, 0
				p := s.on(s.open(t, s.repo.table, &dynalimit.RepositoryOptions{Now: func() time.Time {
					looks++
					return time.Now().Add(ahead)
				}, CorrectClock: &yes}), nil)
				midnight := time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC)
				elapse(time.Until(midnight) - 2500*time.Millisecond)
				s.slowly(2*time.Millisecond, 2*time.Millisecond)
				p.acquire("key", dynalimit.Amounts{"usd": 100})
				before := s.db.Meter()
				looks = 0
				_, err := p.limiter.Wait(t.Context(), "key", model, dynalimit.Amounts{"usd": 1})
				require.NoError(t, err)
				assert.WithinRange(t, time.Now(), midnight, midnight.Add(1100*time.Millisecond))
				assert.LessOrEqual(t, s.db.Meter().Sub(before).Requests(), int64(6))
				assert.Less(t, looks, 200)
			})
		})
	}
}

// A lease of a limit that changes its unit, and of a neighbour that does not: the neighbour gets
// back what was taken.
func TestAChangeOfALimitLeavesItsNeighboursLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := liveProcess(t, memEngine(t), nil)
		neighbour := dynalimit.DailyQuota("requests", 100, "UTC")
		s.limits(admin.Scope{Everyone: true}, dynalimit.DailyQuota("usd", 100, "UTC"), neighbour)
		lease := s.acquire("key", dynalimit.Amounts{"usd": 60, "requests": 60})
		s.limits(admin.Scope{Everyone: true}, dynalimit.Limit{Name: "usd", Capacity: 100, Window: "hour"}, neighbour)
		elapse(2 * time.Minute)
		s.peer(nil).acquire("key", dynalimit.Amounts{"usd": 1, "requests": 1})
		require.NoError(t, lease.Rollback(t.Context()))
		assert.EqualValues(t, 99, s.level("key", "requests"))
		assert.EqualValues(t, 39, s.level("key", "usd"), "60 of the day stay used")
		assert.EqualValues(t, []int64{1000, 1000}, []int64{s.stored("key", "usd").Consumed, s.stored("key", "requests").Consumed})
	})
}

// A half limit that is not configured goes, as any ghost.
func TestHalfLimitThatIsNotConfiguredGoes(t *testing.T) {
	testEngines(t, func(t *testing.T, e *engine) {
		s := newProcess(t, e, nil)
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true, Resource: model}, []dynalimit.Limit{rpm}))
		s.acquire("u", dynalimit.Amounts{"rpm": 1})
		item := s.item("u")
		item["b_tpm_bx"], item["b_usd_cp"] = schema.Number(5000), schema.Number(5000)
		put(t, s.repo, item)
		require.NoError(t, s.repo.SetLimits(t.Context(), admin.Scope{Everyone: true, Resource: model}, []dynalimit.Limit{rpm, tpd}))
		s.clock.advance(3 * time.Second)
		s.peer(nil).acquire("u", dynalimit.Amounts{"rpm": 1})
		assert.Equal(t, []string{"rpm", "tpd"}, s.image("u").Set.Names)
	})
}
