package lane

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// A give-back is sent again only if the last write in its slot was this client's own:
// after another's it could land twice.
func TestGiveBackIsSentAgainAfterAnOwnWriteAlone(t *testing.T) {
	for name, test := range map[string]struct {
		last, own string
		again     bool
	}{
		"own": {"own write", "own write", true}, "another's": {"not-owned", "own write", false}, "the first": {"", "", false}, "none known": {"not-owned", "", false},
	} {
		var own lastOp
		own.set([]byte(test.own))
		d := &delivery{givesBack: true}
		d.prepare(&schema.Image{Op: []byte(test.last)}, &own)
		assert.Equal(t, test.again, d.lastIsOwn, name)
		assert.Equal(t, test.again, d.rule == schema.OpLast, name)
	}
}

// unanswering is a store that gives the same answer to every update, for at most so many.
type unanswering struct {
	Store
	answer  Answer
	updates int
}

func (s *unanswering) Update(context.Context, schema.Item, schema.Statement, *schema.LimitSet, int) Answer {
	if s.updates++; s.updates > 2*MaxTries {
		return Answer{Verdict: ddb.Landed}
	}
	return s.answer
}

// A write is tried again for as long as somebody has time for it, and a bucket is alive.
func TestWriteIsTriedAgainWhileThereIsTime(t *testing.T) {
	conflicted := Answer{Verdict: ddb.Conflicted, Err: &Failure{Reason: Contended}}
	unsent := Answer{Verdict: ddb.Unsent, Err: silence(ErrTripped)}
	for name, test := range map[string]struct {
		answer  Answer
		until   time.Duration
		closed  bool
		updates int
	}{
		"for ever":                  {conflicted, 0, false, MaxTries},
		"for no time":               {conflicted, -1, false, 1},
		"after Close, of no bucket": {unsent, 0, true, MaxUnconfirmed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, s := resting(t), &unanswering{answer: test.answer}
				l.owner.Store = s
				o := NewTake(t.Context(), oneToken, rpmOf(100))
				if test.until != 0 {
					o.Until = time.Now().Add(test.until)
				}
				if test.closed {
					l.owner.End()
				}
				w := sendingOf(l, plan.View{}, o)
				w.ctx = t.Context()
				var a Answer
				w.ended = func(got Answer) { a = got }
				require.True(t, w.deliver())
				assert.Equal(t, test.updates, s.updates)
				assert.NotEqual(t, ddb.Landed, a.Verdict)
			})
		})
	}
}

// What follows from an answer depends on what the tries before it were answered: a take is
// sent again until it recognises itself, a give-back only if it cannot land twice.
func TestWhatFollowsFromTheAnswerToATry(t *testing.T) {
	lost, none := Answer{Verdict: ddb.Unconfirmed, Err: silence(ErrTripped)}, Answer{}
	for name, test := range map[string]struct {
		d       delivery
		earlier Answer
		a       Answer
		took    time.Duration
		verdict ddb.Verdict
		then    step
		doubted bool
	}{
		"landed":                            {delivery{}, none, Answer{Verdict: ddb.Landed}, 0, ddb.Landed, step{over: true}, false},
		"landed after a lost take":          {delivery{}, lost, Answer{Verdict: ddb.Landed}, 0, ddb.Landed, step{over: true}, true},
		"refused":                           {delivery{}, none, Answer{Verdict: ddb.Refused}, 0, ddb.Refused, step{over: true}, false},
		"refused after a lost take":         {delivery{}, lost, Answer{Verdict: ddb.Refused}, 0, ddb.Refused, step{over: true}, true},
		"refused after a lost give-back":    {delivery{givesBack: true, lastIsOwn: true}, lost, Answer{Verdict: ddb.Refused}, 0, ddb.Unconfirmed, step{over: true}, false},
		"recognised":                        {delivery{operation: 7}, lost, Answer{Verdict: ddb.Refused, Image: &schema.Image{Op: OpID(7, 0)}}, 0, ddb.Landed, step{over: true}, false},
		"another's":                         {delivery{operation: 7}, lost, Answer{Verdict: ddb.Refused, Image: &schema.Image{Op: OpID(8, 0)}}, 0, ddb.Refused, step{over: true}, true},
		"lost, a take":                      {delivery{}, none, lost, 0, ddb.Unconfirmed, step{}, false},
		"lost, a give-back of an own slot":  {delivery{givesBack: true, lastIsOwn: true}, none, lost, 0, ddb.Unconfirmed, step{}, false},
		"lost, a give-back of another slot": {delivery{givesBack: true}, none, lost, 0, ddb.Unconfirmed, step{over: true}, false},
		"lost after its full time":          {delivery{}, none, lost, SlowFailure, ddb.Unconfirmed, step{silent: true}, false},
		"throttled":                         {delivery{}, none, Answer{Verdict: ddb.Throttled}, 0, ddb.Throttled, step{over: true}, false},
		"throttled after a lost try":        {delivery{}, lost, Answer{Verdict: ddb.Throttled}, 0, ddb.Throttled, step{}, false},
		"failed after a lost try":           {delivery{}, lost, Answer{Verdict: ddb.Failed}, 0, ddb.Unconfirmed, step{over: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := test.d
			if test.earlier.Err != nil {
				d.op()
				d.book(test.earlier, 0)
				d.try++
			}
			d.op()
			a, then := d.book(test.a, test.took)
			assert.Equal(t, test.verdict, a.Verdict)
			assert.Equal(t, test.then, then)
			assert.Equal(t, test.doubted, a.hidden > 0)
		})
	}
}

// Tries that got no answer land in any order, and other clients of the op slot may write in
// between: each of them but the one that is known, or told to the caller, may have landed too.
func TestTriesThatMayHaveLandedBesides(t *testing.T) {
	d := delivery{operation: 7, unanswered: 3, rule: schema.OpNotMine}
	for try := range 3 {
		image := &schema.Image{Op: OpID(7, try)}
		assert.Equal(t, 2, d.recognise(Answer{Verdict: ddb.Refused, Image: image}).hidden)
		assert.Equal(t, 2, d.found(image, nil).hidden)
	}
	assert.Equal(t, 3, d.recognise(Answer{Verdict: ddb.Refused}).hidden, "it is decided again")
	assert.Equal(t, 2, d.found(nil, nil).hidden, "the caller is told of one")
	assert.Equal(t, 2, d.found(nil, unconfirmed("read")).hidden)
	failed, _ := d.book(Answer{Verdict: ddb.Failed}, 0)
	assert.Equal(t, 2, failed.hidden)
	landed, _ := d.book(Answer{Verdict: ddb.Landed}, 0)
	assert.Equal(t, 3, landed.hidden)
	created := delivery{operation: 7, unanswered: 3, creates: true}
	assert.Zero(t, created.found(nil, nil).hidden, "a bucket is made once")
	d.givesBack = true
	assert.Zero(t, d.found(&schema.Image{Op: OpID(7, 1)}, nil).hidden, "it lands once")
	ops := []*Op{NewTake(t.Context(), oneToken, rpmOf(100))}
	for _, verdict := range []ddb.Verdict{ddb.Landed, ddb.Unconfirmed} {
		s := judge(&move{carried: ops}, Answer{Verdict: verdict, hidden: 2}, nil, nobody)
		assert.Equal(t, []plan.Signed{{Name: "rpm", Amount: 2000}}, s.doubt)
	}
}
