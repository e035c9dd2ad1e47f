package lane

import (
	"context"

	"github.com/dynalimit/dynalimit/internal/ddb"
)

// What becomes of a write whose answer was lost: a later answer may show that it
// landed; what cannot be known counts as consumed.

// orUnconfirmed makes an answer unconfirmed if an earlier try of the same write got no
// answer.
func (a Answer) orUnconfirmed(unanswered int) Answer {
	if unanswered > 0 {
		a.Verdict = ddb.Unconfirmed
	}
	return a
}

// recognise reads a refusal that follows an unanswered try. If the image shows the id of
// an earlier try, that try has landed. Otherwise a take is decided again, because it is
// safe if the earlier try lands late as well. A give-back is not decided again, because
// it must never land twice: it stays unconfirmed, and its tokens count as consumed.
func (l *Lane) recognise(a Answer, d *delivery) Answer {
	if a.Image != nil && isTryOf(a.Image.Op, d.operation) {
		l.lastOp.set(a.Image.Op)
		a.Verdict = ddb.Landed
		return a
	}
	a.earlierUnconfirmed = true
	if d.givesBack {
		a.Verdict, a.Err = ddb.Unconfirmed, unconfirmed("give back")
	}
	return a
}

// lookFor reads the bucket once, consistently, to find out what became of an unanswered
// write.
func (l *Lane) lookFor(ctx context.Context, d *delivery) Answer {
	image, _, err := l.readPatiently(ctx, l.sight.hint())
	if err != nil {
		return Answer{Verdict: ddb.Unconfirmed, Err: err}
	}
	if image != nil && isTryOf(image.Op, d.operation) {
		l.lastOp.set(image.Op)
		return Answer{Verdict: ddb.Landed, Image: image, Seen: true}
	}
	return Answer{Verdict: ddb.Unconfirmed, Image: image, Seen: true, Err: unconfirmed(writeBucket)}
}
