package dynalimit

import (
	"context"
	"time"

	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// bucketStore is what lanes need of the repository: the hot path. Each call is
// one request, or as many as it takes to read.
type bucketStore interface {
	// Update sends a conditional update of one bucket, once.
	Update(ctx context.Context, key schema.Item, st schema.Statement, hint *schema.LimitSet, slot int) answer
	// Create puts a bucket that must not exist yet, once.
	Create(ctx context.Context, c *schema.Create, hint *schema.LimitSet, slot int) answer
	// Read reads one bucket consistently; a nil image is no bucket.
	Read(ctx context.Context, key schema.Item, hint *schema.LimitSet, slot int) (*schema.Image, error)
	// Probe asks for proof that the bucket can be written, and writes nothing.
	Probe(ctx context.Context, key schema.Item) error
	// RereadConfig returns the configuration by a read that began after the call,
	// nil when nothing limits the bucket. One that cannot be used is a *failure of
	// failedMisconfigured.
	RereadConfig(ctx context.Context, entity, resource string) (*plan.Config, error)
	// ForgetConfig makes the next use of a configuration read it again.
	ForgetConfig(entity, resource string)
}

// answer is what came of a write of one bucket.
type answer struct {
	// verdict is what the answer says about the write.
	verdict ddb.Verdict
	// image is the bucket after a landed write, or as it was when a condition
	// failed; nil when there is no bucket. seen means that the answer showed it.
	image *schema.Image
	seen  bool
	// err is why the write did not land, or its answer cannot be read.
	err error
	// unsure means that an earlier try went unanswered, and may yet land.
	unsure bool
	// tries is how many requests it took.
	tries int
}

// tableHealth tells whether a table answers.
type tableHealth interface {
	// Open reports whether it does not.
	Open() bool
	// Opened and Closed are closed while it is open, and while it is not.
	Opened() <-chan struct{}
	Closed() <-chan struct{}
	// Cause is why it does not, nil while it does.
	Cause() error
}

// trace hears of writes.
type trace interface {
	// Begin is called before a write is first sent, with the context it will be
	// sent under; the write goes on under the one that is returned. end is called
	// when the outcome is known, or will not be, with the time that took.
	Begin(ctx context.Context, w writing) (under context.Context, end func(a answer, took time.Duration))
}

// writing describes a write to a bucket.
type writing struct {
	// entity and resource name the bucket.
	entity, resource string
	// kind is the shape of the write.
	kind plan.Kind
	// callers is how many ops it carries.
	callers int
}
