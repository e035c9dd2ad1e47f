package lane

import (
	"crypto/rand"
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
)

const (
	// MaxTries bounds the requests of one decided write.
	MaxTries = 10
	// MaxUnconfirmed is the number of unanswered tries of a take before one consistent read asks for
	// their outcome.
	MaxUnconfirmed = 3
	// SlowFailure tells a request that had its full time from one that failed fast. One slow failure is
	// enough to call a bucket silent.
	SlowFailure = 250 * time.Millisecond
	// backoffBase and backoffMost bound the jittered waits between tries.
	backoffBase = 5 * time.Millisecond
	backoffMost = 200 * time.Millisecond
)

// Backoff is the wait between the tries of a bucket's write.
var Backoff = ddb.Backoff{First: backoffBase, Most: backoffMost}

// delivery is one decided write in flight, sent once or several times. It decides the condition of each
// try on the bucket's op slot, and the common meaning of the tries' answers. A write with give-backs
// never lands twice. A delivery sends nothing itself; it belongs to the sending goroutine.
type delivery struct {
	operation uint64
	slot      int
	// creates means that the write makes the bucket. givesBack means that it gives tokens back, so it
	// must never land twice.
	creates, givesBack bool
	// rule is the condition of the next try, which compares required with the op slot. Of a give-back, required is
	// the id in the slot of the image from which the write was decided; lastIsOwn means that this client's own last
	// write left it.
	lastIsOwn bool
	rule      schema.OpRule
	required  []byte
	try       int
	// id is the id of the try in flight.
	id []byte
	// unanswered counts the tries without an answer. silentTries counts the tries in a row in which the
	// store was silent, sent or not.
	unanswered, silentTries int
}

// step is the consequence of the answer to a try.
type step struct {
	// over means that the answer is final. Otherwise the write is sent again: after Backoff or, if the
	// bucket is silent, once it answers.
	over bool
	// silent means that the bucket does not answer.
	silent bool
}

// bindToSlot sets the condition of a give-back's tries on the op slot. own is this client's last write, and
// image the basis of the write. If image shows own in the slot, each try requires it there still, so that
// retries land once; otherwise the give-back is not sent again.
func (d *delivery) bindToSlot(image *schema.Image, own tryID) {
	if image != nil {
		d.required = image.Op.Bytes()
	}
	d.lastIsOwn = own != (tryID{}) && string(d.required) == string(own[:])
	if d.lastIsOwn {
		d.rule = schema.OpLast
	}
}

// bookTry books the answer to a try, which took the given time. It returns the answer with the number of tries,
// as landed if an earlier try landed, and the next step. A take with an unanswered try is sent again only while
// the slot shows none of its tries.
func (d *delivery) bookTry(a Answer, took time.Duration) (Answer, step) {
	a.Tries = d.try + 1
	trips := false
	if a.Err == nil {
		d.silentTries = 0
	} else {
		trips = d.countFailure(a.Err, took)
	}
	switch a.Verdict {
	case ddb.Landed:
		if d.rule == schema.OpNotMine && !d.creates {
			a.hidden = d.unanswered // behind writes of other clients
		}
		a.own = d.id
		return a, step{over: true}
	case ddb.Refused:
		if d.unanswered > 0 {
			a = d.recognise(a)
		}
		return a, step{over: true}
	case ddb.Throttled:
		return a, step{over: d.unanswered == 0, silent: trips} // surely not written: it is decided again
	case ddb.Unconfirmed:
		d.unanswered++
		if !d.givesBack {
			d.rule, d.required = schema.OpNotMine, OpID(d.operation, d.try)[:idLength-1]
			return a, step{silent: trips}
		}
		return a, step{over: !d.lastIsOwn, silent: trips}
	case ddb.Failed:
		return d.asUnconfirmed(a), step{over: true}
	default:
		return a, step{silent: trips}
	}
}

// countFailure counts a failed try, and reports whether the bucket does not answer. One unanswered request of
// 250 ms or more, or three fast ones in a row, mean that; an answer ends the row.
func (d *delivery) countFailure(err error, took time.Duration) bool {
	if !silent(err) {
		if hasAnswer(err) {
			d.silentTries = 0
		}
		return false
	}
	d.silentTries++
	return took >= SlowFailure || d.silentTries >= MaxUnconfirmed
}

// recognise interprets a refusal after an unanswered try. If the image shows the id of an earlier try,
// that try has landed, perhaps with others. Otherwise a take is decided again, because it is safe if
// the earlier try lands late as well. A give-back is not decided again, because it must never land
// twice: it stays unconfirmed, and its tokens count as consumed.
func (d *delivery) recognise(a Answer) Answer {
	if a.Image != nil && isTryOf(a.Image.Op.Bytes(), d.operation) {
		a.own, a.later = a.Image.Op.Bytes(), true
		a.Verdict, a.hidden = ddb.Landed, d.hiddenTries()
		return a
	}
	if d.givesBack {
		a.Verdict, a.Err = ddb.Unconfirmed, unconfirmed("give back")
		return a
	}
	a.hidden = 1 + d.hiddenTries()
	return a
}

// asUnconfirmed returns a as Unconfirmed, with the number of tries that may land besides, if an earlier try got
// no answer; else unchanged.
func (d *delivery) asUnconfirmed(a Answer) Answer {
	if d.unanswered > 0 {
		a.Verdict, a.hidden = ddb.Unconfirmed, d.hiddenTries()
	}
	return a
}

// hiddenTries returns the number of unanswered tries that may land in addition to one of them: behind writes of
// other clients, and out of order. It is 0 for a give-back or a create, which land once.
func (d *delivery) hiddenTries() int {
	if d.givesBack || d.creates {
		return 0
	}
	return max(0, d.unanswered-1)
}

// outcomeIn returns the answer to a write from a consistent read after unanswered tries. The write has landed
// if the image shows the id of one of its tries; otherwise, or if the read failed, it is unconfirmed.
func (d *delivery) outcomeIn(image *schema.Image, err error) Answer {
	if err != nil {
		return Answer{Verdict: ddb.Unconfirmed, Err: err, hidden: d.hiddenTries()}
	}
	if image != nil && isTryOf(image.Op.Bytes(), d.operation) {
		return Answer{Verdict: ddb.Landed, Image: image, Seen: true, later: true, own: image.Op.Bytes(), hidden: d.hiddenTries()}
	}
	return Answer{Verdict: ddb.Unconfirmed, Image: image, Seen: true, Err: unconfirmed(writeBucket), hidden: d.hiddenTries()}
}

// unsent returns the answer to a delivery that ends because its bucket does not answer: Unsent, with the reason
// Silent and the number of tries.
func (d *delivery) unsent() Answer {
	return Answer{Verdict: ddb.Unsent, Err: silence(ErrTripped), Tries: d.try}
}

// IDs makes the ids of a client's writes: 8 bytes for the operation, unique
// among all clients, and one for the try.
type IDs struct {
	base uint64
	// Last is the number of the last operation. Last.Add(1) makes the number of a new one, unique among all
	// clients.
	Last atomic.Uint64
	// Slot is the slot of the item in which this client writes them.
	Slot int
}

// newOpIDs makes ids with a random base, and a random op slot of the item.
func newOpIDs() *IDs {
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // never fails: crypto/rand aborts the program instead
	base := binary.BigEndian.Uint64(seed[:])
	return IDsFrom(base, int(base%schema.OpSlots))
}

// IDsFrom makes ids with numbers that follow base. slot is the op slot of the item in which their client writes
// them.
func IDsFrom(base uint64, slot int) *IDs {
	ids := &IDs{base: base, Slot: slot}
	ids.Last.Store(base)
	return ids
}

// idLength is the length of the id of a try.
const idLength = 9

// tryID is the id of a try, as an op slot has it; zero if it is unknown.
type tryID [idLength]byte

// OpID returns the id of a try of an operation: its 8 bytes, and one for the try.
func OpID(operation uint64, try int) []byte {
	id := make([]byte, idLength)
	binary.BigEndian.PutUint64(id, operation)
	id[8] = byte(try)
	return id
}

// isTryOf reports whether the id in an op slot belongs to a try of the operation.
func isTryOf(slot []byte, operation uint64) bool {
	return len(slot) == idLength && binary.BigEndian.Uint64(slot) == operation
}
