package dynalimit

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// maxTries bounds the requests of one decided write.
	maxTries = 10
	// maxAmbiguous is how many tries of a take may go unanswered before one
	// consistent read asks what became of them.
	maxAmbiguous = 3
	// backoffBase and backoffMost bound the jittered waits between tries.
	backoffBase = 5 * time.Millisecond
	backoffMost = 200 * time.Millisecond
)

// errContended ends a write that other clients refused again and again.
var errContended = errors.New("too many concurrent changes of one bucket")

// delivery is one decided write on its way.
type delivery struct {
	kind      WriteKind
	callers   int
	operation uint64
	// backs says that it gives something back, and so must never land twice.
	backs bool
	// send does one try.
	send func(ctx context.Context, o schema.Op) answer
	// given up: nobody waits for it any more.
	abandoned func() bool
}

// deliver sends a decided write until it is known to have landed or not. A take
// is resent so that it recognises itself; landing twice is safe, it counts
// twice. A give-back is resent only when every try requires the slot's last
// write to be this client's own, so that it lands once.
func (l *lane) deliver(ctx context.Context, d delivery) answer {
	seen := []byte(nil)
	if l.image != nil {
		seen = l.image.Op
	}
	own := len(l.lastOp) > 0 && bytes.Equal(seen, l.lastOp)
	rule := schema.OpAny
	if d.backs && own {
		rule = schema.OpLast
	}
	unanswered := 0
	for try := 0; ; try++ {
		o := schema.Op{Slot: l.owner.ids.slot, Rule: rule, ID: opID(d.operation, try), Last: seen}
		a := d.send(ctx, o)
		a.tries = try + 1
		switch a.verdict {
		case landed:
			l.lastOp = o.ID
			return a
		case refused:
			if unanswered == 0 {
				return a
			}
			return l.recognise(a, d)
		case ambiguous:
			unanswered++
			if d.backs && !own {
				return a
			}
			if !d.backs {
				rule = schema.OpNotMine
			}
		case failed:
			return a.orUnknown(unanswered)
		}
		if unanswered >= maxAmbiguous {
			return l.lookFor(ctx, d, a)
		}
		if try+1 >= maxTries || d.abandoned() && unanswered == 0 || !sleep(ctx, jitter(try)) {
			return a.orUnknown(unanswered)
		}
	}
}

// orUnknown makes an answer ambiguous if an earlier try went unanswered.
func (a answer) orUnknown(unanswered int) answer {
	if unanswered > 0 {
		a.verdict = ambiguous
	}
	return a
}

// recognise reads a refusal that follows an unanswered try: the image may show
// that the earlier one landed. Else a take is decided again (landing late is
// safe). A give-back is so only if the slot still holds what every try requires:
// otherwise another client may have taken the slot after it landed.
func (l *lane) recognise(a answer, d delivery) answer {
	if a.image != nil && isTryOf(a.image.Op, d.operation) {
		l.lastOp = a.image.Op
		a.verdict = landed
		return a
	}
	if d.backs && (a.image == nil || !bytes.Equal(a.image.Op, l.lastOp)) {
		a.verdict, a.err = ambiguous, &UnavailableError{Op: "give back", Err: errUnrecognised}
	}
	return a
}

var errUnrecognised = errors.New("an earlier try went unanswered and cannot be recognised")

// lookFor asks by one consistent read what became of an unanswered write.
func (l *lane) lookFor(ctx context.Context, d delivery, last answer) answer {
	image, err := l.owner.store.readBucket(ctx, l.key, l.hint(), l.owner.ids.slot)
	if err != nil {
		return last.orUnknown(1)
	}
	if image != nil && isTryOf(image.Op, d.operation) {
		l.lastOp = image.Op
		return answer{verdict: landed, image: image, seen: true}
	}
	last.image, last.seen = image, true
	return last.orUnknown(1)
}

func (l *lane) hint() *schema.LimitSet {
	if l.image == nil {
		return nil
	}
	return l.image.Set
}

// jitter is a random wait that grows with the try (full jitter).
func jitter(try int) time.Duration {
	most := min(backoffBase<<min(try, 10), backoffMost)
	return time.Duration(rand.Int64N(int64(most)) + 1)
}

// sleep waits; false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
