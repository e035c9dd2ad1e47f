package lane

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Store sends the requests of lanes. Each method sends one request; a read may be retried. Package
// store implements it. It is an interface because the laws, and the tests of lanes, change statements
// and answers here. At a lower level they would have to change DynamoDB's protocol.
type Store interface {
	// Update sends a conditional update of one bucket, once.
	Update(ctx context.Context, key schema.Item, st schema.Statement, hint *schema.LimitSet, slot int) Answer
	// Create makes a bucket that must not exist yet, once.
	Create(ctx context.Context, c *schema.Create, hint *schema.LimitSet, slot int) Answer
	// Read reads one bucket consistently. The image is nil if the bucket does not exist.
	Read(ctx context.Context, key schema.Item, hint *schema.LimitSet, slot int) (*schema.Image, error)
	// Probe asks DynamoDB to prove that the bucket can be written. It writes nothing.
	Probe(ctx context.Context, key schema.Item) error
}

// Configs reads the configurations of buckets. group means that the bucket is that of a group of
// resources.
type Configs interface {
	// Reread reads the configuration after the call has begun, without the cache. It returns nil if
	// nothing limits the bucket, and a *Failure with the reason Misconfigured if the configuration
	// cannot be used.
	Reread(ctx context.Context, entity, resource string, group bool) (*plan.Config, error)
	// Forget makes the next use of a configuration read it again.
	Forget(entity, resource string, group bool)
}

// Answer is the outcome of a write of one bucket.
type Answer struct {
	// Verdict is the outcome by the answer.
	Verdict ddb.Verdict
	// Image is the bucket after a landed write, or the bucket whose condition failed; nil if the bucket
	// does not exist. Seen means that the answer contained it.
	Image *schema.Image
	Seen  bool
	// later means that the answer to the write itself was lost: another request showed the image
	// after it had landed.
	later bool
	// Err is the reason why the write did not land, or why its answer cannot be read.
	Err error
	// hidden is the number of unanswered tries that may have landed, or may still land, in addition to
	// the answered one.
	hidden int
	// own is the id of this write in its op slot, nil if that is not known.
	own []byte
	// Tries is the number of requests.
	Tries int
}

// unwritten returns the result of ops whose write failed: with the answer's error, and marked Unconfirmed if
// the write perhaps landed. After conflicts only, its error is a *Failure with the reason Contended.
func (a Answer) unwritten() Result {
	if a.Verdict == ddb.Conflicted { // answered each time
		return Result{Err: &Failure{Reason: Contended}}
	}
	return Result{Err: a.Err, Unconfirmed: a.Verdict == ddb.Unconfirmed}
}

// Table is the state of the table. It is open while the table does not answer.
type Table interface {
	// Open reports whether the table does not answer.
	Open() bool
	// Opened returns a channel that is closed while the table is open, and Closed one that is closed
	// while it is not.
	Opened() <-chan struct{}
	Closed() <-chan struct{}
	// LastAnswer returns the instant of the last answer to a request, zero without one.
	LastAnswer() time.Time
	// Cause is the reason why the table does not answer; nil while it answers.
	Cause() error
	// Probe asks the table whether it answers. It writes nothing.
	Probe(ctx context.Context) error
}

// Trace observes writes. Its methods must be safe for concurrent use.
type Trace interface {
	// Begin is called before a write is first sent, with the context of the write. The
	// write continues under the context that Begin returns. end is called once the
	// outcome is known, or cannot be known.
	Begin(ctx context.Context, w Writing) (under context.Context, end func(a Answer))
	// Paced is called when the pacing of a lane begins, and when it is over, at the lane's next use.
	Paced(p Paced)
}

// Writing describes a write to a bucket.
type Writing struct {
	// Entity and Resource name the bucket.
	Entity, Resource string
	// Kind is the shape of the write.
	Kind plan.Kind
	// Callers is the number of its ops.
	Callers int
	// Before is the last image of the bucket; nil if none is known or the bucket did not exist.
	Before *schema.Image
}

// Paced describes the pacing of a lane: the interval between its writes.
type Paced struct {
	// Entity and Resource name the bucket.
	Entity, Resource string
	// Reads means that the last throttled request was a read; otherwise it was a write.
	Reads bool
	// Cause is the error of that request.
	Cause error
	// Interval is the least time between the starts of two writes; 0 if the writes are not spaced.
	Interval time.Duration
	// Throttled is the time of the last throttled request; zero if the lane is no longer paced.
	Throttled time.Time
}
