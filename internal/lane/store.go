package lane

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Store is what lanes need of the repository: the hot path. Each call is
// one request, or as many as it takes to read.
type Store interface {
	// Update sends a conditional update of one bucket, once.
	Update(ctx context.Context, key schema.Item, st schema.Statement, hint *schema.LimitSet, slot int) Answer
	// Create puts a bucket that must not exist yet, once.
	Create(ctx context.Context, c *schema.Create, hint *schema.LimitSet, slot int) Answer
	// Read reads one bucket consistently; a nil image is no bucket.
	Read(ctx context.Context, key schema.Item, hint *schema.LimitSet, slot int) (*schema.Image, error)
	// Probe asks for proof that the bucket can be written, and writes nothing.
	Probe(ctx context.Context, key schema.Item) error
	// RereadConfig returns the configuration by a read that began after the call,
	// nil when nothing limits the bucket. One that cannot be used is a *Failure of
	// Misconfigured.
	RereadConfig(ctx context.Context, entity, resource string) (*plan.Config, error)
	// ForgetConfig makes the next use of a configuration read it again.
	ForgetConfig(entity, resource string)
}

// Answer is what came of a write of one bucket.
type Answer struct {
	// Verdict is what the answer says about the write.
	Verdict ddb.Verdict
	// Image is the bucket after a landed write, or as it was when a condition
	// failed; nil when there is no bucket. Seen means that the answer showed it.
	Image *schema.Image
	Seen  bool
	// Err is why the write did not land, or its answer cannot be read.
	Err error
	// earlierUnconfirmed means that an earlier try went unanswered, and may yet land.
	earlierUnconfirmed bool
	// Tries is how many requests it took.
	Tries int
}

// Table tells whether a table answers.
type Table interface {
	// Open reports whether it does not.
	Open() bool
	// Opened and Closed are closed while it is open, and while it is not.
	Opened() <-chan struct{}
	Closed() <-chan struct{}
	// Cause is why it does not, nil while it does.
	Cause() error
}

// Trace hears of writes.
type Trace interface {
	// Begin is called before a write is first sent, with the context it will be
	// sent under; the write goes on under the one that is returned. end is called
	// when the outcome is known, or will not be, with the time that took.
	Begin(ctx context.Context, w Writing) (under context.Context, end func(a Answer, took time.Duration))
	// Paced is called when a lane begins to leave an interval between its writes,
	// and when that is over, at its next use.
	Paced(p Paced)
}

// Writing describes a write to a bucket.
type Writing struct {
	// Entity and Resource name the bucket.
	Entity, Resource string
	// Kind is the shape of the write.
	Kind plan.Kind
	// Callers is how many ops it carries.
	Callers int
}
