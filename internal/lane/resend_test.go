package lane

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/ddb"
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
		l := &Lane{}
		l.lastOp.set([]byte(test.own))
		l.sight.image = &schema.Image{Op: []byte(test.last)}
		d := &delivery{givesBack: true}
		l.prepare(d)
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
				a, driverEnded := l.deliver(t.Context(), &delivery{carried: []*Op{o}})
				require.False(t, driverEnded)
				assert.Equal(t, test.updates, s.updates)
				assert.NotEqual(t, ddb.Landed, a.Verdict)
			})
		})
	}
}
