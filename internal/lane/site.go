package lane

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// BucketKey names a bucket.
type BucketKey struct{ Entity, Resource string }

// Bucket names the bucket of a lane, and says whether it answers.
type Bucket struct {
	// BucketKey is the registry's copy.
	*BucketKey
	// number is the lane's place among its owner's lanes.
	number uint16
	// Contact says whether the bucket answers. It may be used without the lane.
	Contact Contact
}

// Access is how the buckets of a process are asked. All fields are required.
type Access struct {
	// Store sends the requests; Keys names the buckets in the table.
	Store Store
	Keys  schema.Keys
	// Configs reads the configurations of the buckets.
	Configs Configs
	// NowMS is the time in Unix ms, corrected towards DynamoDB's clock. Tick returns a
	// number larger than all before it.
	NowMS func() int64
	Tick  func() int64
	// SureMS is the latest time that has surely passed by DynamoDB's clock.
	SureMS func() int64
	// Table says whether the table answers.
	Table Table
	// Log receives the messages for operators.
	Log *slog.Logger
}

// Ask returns the instant, in Unix ms, and the order of a request that is sent now. It sends nothing.
func (a *Access) Ask() Asked { return Asked{At: a.NowMS(), Order: a.Tick()} }

// sites is the shared part of the buckets of a process.
type sites struct {
	access *Access
	// IDs makes the ids of this client's writes.
	IDs *IDs
	// life ends when End is called, after the limiter was closed. From then on nothing
	// is probed, and nothing is kept to be written later.
	life context.Context
	End  context.CancelFunc
	// keys are the items of the lanes that used theirs last: an item's key is larger than the rest of a
	// lane at rest.
	keys []atomic.Pointer[builtKey]
	// foreign means that another implementation has written a bucket.
	foreign atomic.Bool
	// trips counts the buckets that do not answer. asked is the time, as passed returns it, of the last probe of one
	// whose lane did not wait for the table's.
	trips, asked atomic.Int64
	// Began is the origin of the instants for pacing and for the age of prefetched tokens. It never
	// changes.
	Began time.Time
}

// passed returns the time in µs since Began, for pacing. It never goes back, and is always above 0.
func (s *sites) passed() int64 { return time.Since(s.Began).Microseconds() }

// elapsed returns the time in ms since Began. It never goes back.
func (s *sites) elapsed() int64 { return s.passed() / 1000 }

// Sleep waits for d. It returns false if the limiter is closed first.
func (s *sites) Sleep(d time.Duration) bool { return ddb.Sleep(s.life, d) }

// site is the place of a bucket, and the way to ask it. Its methods take no lock, and change nothing of
// the lane but the contact.
type site struct {
	*sites
	*Bucket
}

// mostKeys bounds the number of cached item keys, 0.6 kB each.
const mostKeys = 4096

// builtKey is the key of a bucket's item, in the form that requests need.
type builtKey struct {
	of   *Bucket
	item schema.Item
}

// Key returns the primary key of the bucket's item, as DynamoDB attributes, from the cache or built anew.
// Callers must not change it.
func (s site) Key() schema.Item {
	place := &s.keys[int(s.number)%len(s.keys)]
	if k := place.Load(); k != nil && k.of == s.Bucket {
		return k.item
	}
	k := &builtKey{of: s.Bucket, item: s.access.Keys.Bucket(s.Entity, s.Resource).Attributes()}
	place.Store(k)
	return k.item
}

// Read reads the bucket once, and notes an answer in the contact; image is nil if the bucket does not exist.
// hint is the set of limits that it will probably show, or nil. asked is the instant and order of the request.
func (s site) Read(ctx context.Context, hint *schema.LimitSet) (image *schema.Image, asked Asked, err error) {
	asked = s.access.Ask()
	image, err = s.access.Store.Read(ctx, s.Key(), hint, s.IDs.Slot)
	if hasAnswer(err) {
		s.Contact.NoteAnswer()
	}
	return image, asked, err
}

// ReadPatiently reads the bucket as Read does, for a caller that cannot come back to the bucket later. It sends
// a throttled read up to ten times, with pauses, until ctx ends.
func (s site) ReadPatiently(ctx context.Context, hint *schema.LimitSet) (image *schema.Image, asked Asked, err error) {
	for try := range MaxTries {
		image, asked, err = s.Read(ctx, hint)
		if !isThrottling(err) || !Backoff.Pause(ctx, try) {
			break
		}
	}
	return image, asked, err
}

// turnMS is the time for which callers that give an entity another plan accept the limits in the
// bucket, in ms.
const turnMS = 1000

// View returns the known image at now under the batch's configuration. If the image may have a newer one that
// matters, it reads that into the batch and its takes. Without an answer the bucket's own parameters decide,
// unless they lack a charged limit. The view is then of an instant after that read, even if it had no answer. If
// the bucket cannot take all configured limits, the view comes with a *Failure with the reason Overfull.
func (s site) View(ctx context.Context, known *sight, b *batch, now int64) (plan.View, error) {
	cfg := b.cfg
	if cfg != nil && cfg.Origin != nil && cfg.Origin.Phase != nil { // it may have raises that have ended
		cfg = cfg.AsOf(known.image)
	}
	if cfg.IsStored(known.image) { // the usual case: the bucket has this configuration
		if cfg.Quotas || known.image.Set.Quotas {
			now = plan.Unopened(known.image, cfg, s.access.SureMS(), now)
		}
		return plan.View{Image: known.image, Config: cfg, Now: now}, nil
	}
	missing := b.chargesUnknownLimit(known.image, cfg)
	st := s.standing(known, b, cfg, missing, now)
	if st == plan.Unsure || missing && (st == plan.Older || st == plan.Early) {
		var err error
		if cfg, st, err = s.compareAgain(ctx, known, b, cfg, missing); err != nil {
			return plan.View{}, err
		}
		missing, now = b.chargesUnknownLimit(known.image, cfg), s.access.NowMS()
	}
	if brings := missing && (st == plan.Current || st == plan.Early); brings || known.image == nil {
		st = plan.Newer
	}
	v := plan.View{Image: known.image, Config: cfg, Adopt: st == plan.Newer, Now: plan.DecidedAt(known.image, cfg, s.access.SureMS, now)}
	if v.Adopt && v.Image != nil {
		if waiting, wait := v.Overfull(); waiting != nil {
			return v, &Failure{Reason: Overfull, Configured: len(cfg.Limits), Waiting: waiting, Wait: wait}
		}
	}
	return v, nil
}

// compareAgain reads the configuration again, and compares it with the image. Without an answer it returns the known
// one as older, unless that lacks a charged limit (missing).
func (s site) compareAgain(ctx context.Context, known *sight, b *batch, cfg *plan.Config, missing bool) (*plan.Config, plan.Standing, error) {
	current, err := s.reread(ctx, b)
	switch {
	case err == nil:
		current = current.AsOf(known.image)
		return current, known.compare(current), nil
	case missing || ctx.Err() != nil || !errors.Is(err, fault.ErrUnavailable):
		return nil, plan.Unsure, err
	}
	return cfg, plan.Older, nil
}

// standing compares a configuration with the image before a new read; for adjusts alone it is older than any
// image. missing means that the batch charges a limit that the bucket lacks. If the bucket has a newer
// configuration, the cache forgets the known one.
func (s site) standing(known *sight, b *batch, cfg *plan.Config, missing bool, now int64) plan.Standing {
	st := plan.Compare(known.image, cfg, known.seenTick)
	switch {
	case !missing && len(b.takes) == 0 && known.isOfLibrary():
		return plan.Older // an adjust charges the bucket as it is; takes bring the configuration
	case st == plan.Rival && (missing || known.seenFor(now) >= turnMS):
		return plan.Newer
	case st == plan.Rival: // to read it again would find the same
		return plan.Older
	case st == plan.Older:
		s.access.Configs.Forget(s.Entity, s.Resource, cfg.OfGroup())
	}
	return st
}

// reread reads the configuration again, and stores it in the batch and its takes. Without limits it returns nil
// for adjusts, and a *Failure with the reason Unlimited for takes.
func (s site) reread(ctx context.Context, b *batch) (*plan.Config, error) {
	cfg, err := s.access.Configs.Reread(ctx, s.Entity, s.Resource, b.cfg.OfGroup())
	if err != nil {
		return nil, err
	}
	if cfg == nil && len(b.takes) > 0 {
		return nil, &Failure{Reason: Unlimited}
	}
	b.cfg = cfg
	for _, o := range b.takes {
		o.cfg = cfg
	}
	return cfg, nil
}

// Contact says whether a bucket answers. Silence counts only while a request is in flight. All of it is
// atomic, so callers read it without a lock. Only the lane marks the bucket as silent, under its own
// lock.
type Contact struct {
	table *Table // the registry's: a process remembers many lanes
	// heard is the time of the last answer about the bucket, in Unix nanoseconds.
	heard atomic.Int64
	// again is set while the bucket does not answer, and closed when it answers again.
	again atomic.Pointer[chan struct{}]
	// suspect means that the bucket may be the silent one of an unanswered transaction.
	suspect atomic.Bool
	// pausing is the reason why the lane sends no request: paced, parked, or 0.
	pausing atomic.Int32
}

// The reasons why a lane sends no request. A paced lane waits for its turn among the writers of its bucket, and a
// parked one for a pass of its process.
const (
	paced int32 = iota + 1
	parked
)

// Away reports whether the bucket, or the whole table, does not answer.
func (c *Contact) Away() bool { return c.silent() || (*c.table).Open() }

// silent reports whether the bucket does not answer.
func (c *Contact) silent() bool { return c.again.Load() != nil }

// Back returns a channel that is closed when a silent bucket, or else a silent table, answers again. It is nil
// if both answer.
func (c *Contact) Back() <-chan struct{} {
	if again := c.again.Load(); again != nil {
		return *again
	}
	if (*c.table).Open() {
		return (*c.table).Closed()
	}
	return nil
}

// NoteAnswer records that DynamoDB answered a request about the bucket just now, which is then no longer
// suspected.
func (c *Contact) NoteAnswer() {
	c.heard.Store(time.Now().UnixNano())
	c.suspect.Store(false)
}

// Suspect marks the bucket as perhaps silent, after an unanswered transaction with it. Until it has answered,
// or is known to be silent, calls ask it by itself.
func (c *Contact) Suspect() { c.suspect.Store(true) }

// Suspected reports whether an unanswered transaction has made the bucket perhaps silent, so that calls must
// ask it by itself.
func (c *Contact) Suspected() bool { return c.suspect.Load() }

// Quiet returns the time without an answer about the bucket, counted from since at the earliest. It is 0 while the
// lane is paced, because then it sends no request. While the lane is parked it is the time without an answer of the
// table, because then others send.
func (c *Contact) Quiet(since time.Time) time.Duration {
	switch c.pausing.Load() {
	case paced:
		return 0
	case parked:
		if last := (*c.table).LastAnswer(); last.After(since) {
			since = last
		}
	}
	if heard := time.Unix(0, c.heard.Load()); heard.After(since) {
		since = heard
	}
	return time.Since(since)
}

// pause marks the begin of a time without requests, for a reason: paced or parked.
func (c *Contact) pause(reason int32) { c.pausing.Store(reason) }

// resume marks the end of the time that pause began. The silence of the bucket counts from now on. If the lane was
// parked, it counts from the table's last answer on. A suspected bucket stays suspected.
func (c *Contact) resume() {
	from := time.Now()
	if c.pausing.Load() == parked {
		from = (*c.table).LastAnswer()
	}
	c.heard.Store(max(c.heard.Load(), from.UnixNano()))
	c.pausing.Store(0)
}

// lose marks the bucket as silent, and no longer as suspected.
func (c *Contact) lose() {
	again := make(chan struct{})
	c.again.Store(&again)
	c.suspect.Store(false)
}

// regain marks the silent bucket as answering again, and wakes all that wait for it.
func (c *Contact) regain() {
	again := c.again.Swap(nil)
	close(*again)
}

// await waits until a silent bucket answers again, and returns true; at once if it answers. It returns false if
// life has ended, because the limiter is closed.
func (c *Contact) await(life context.Context) bool {
	if again := c.again.Load(); again != nil {
		select {
		case <-*again:
		case <-life.Done():
		}
	}
	return life.Err() == nil
}

// work counts the work in flight, so that Close can wait for it.
type work struct {
	mu      sync.Mutex
	running int
	idle    chan struct{} // closed when nothing runs; made by the waiter
}

// Started counts a piece of work that has begun. Drain waits for it.
func (s *work) Started() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
}

// Stopped counts the end of a piece of work. The last one wakes Drain.
func (s *work) Stopped() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running--; s.running == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// Drain waits until nothing is in flight. It returns ctx's error if ctx ends first.
func (s *work) Drain(ctx context.Context) error {
	s.mu.Lock()
	if s.running == 0 {
		s.mu.Unlock()
		return nil
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// some is a set of at most a number of things in the same condition. It is safe for concurrent use.
type some[K comparable] struct {
	most int
	mu   sync.Mutex
	set  map[K]struct{}
}

// add adds k, unless the set already has the most members allowed.
func (s *some[K]) add(k K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set == nil {
		s.set = map[K]struct{}{}
	}
	if len(s.set) < s.most {
		s.set[k] = struct{}{}
	}
}

// remove removes k, if the set has it.
func (s *some[K]) remove(k K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.set, k)
}

// all returns the members of the set, in no order.
func (s *some[K]) all() []K {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.set))
}
