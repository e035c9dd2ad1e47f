package backlog

import (
	"container/heap"
	"math"
	"sync"

	"github.com/dynalimit/dynalimit/internal/bucket"
)

// Bucket names a bucket.
type Bucket struct{ Entity, Resource string }

// Ask is a call's request for one limit of a bucket that does not answer.
type Ask struct {
	// Name is the name of the limit, and Amount the requested amount.
	Name   string
	Amount int64
	// Burst is the limit's own, and Share the part of the limit that this process admits.
	Burst int64
	Share bucket.Rate
	// Used is the process's part of the usage in the last image of the bucket.
	Used int64
	// Level is the content of the limit's queue after Admit.
	Level int64
}

// Queues admit a process's calls while buckets do not answer. There is one for each limit of a bucket. They
// survive the end of an outage, and the next one finds them. Their number is bounded: a bucket may be dropped
// once all its queues are empty, because a new bucket would start in the same state. While every bucket has a
// filled queue, other buckets get none. Queues are safe for concurrent use.
type Queues struct {
	most int

	mu       sync.Mutex
	byBucket map[Bucket]*bucketQueues
	// order is a heap by the time at which the queues of a bucket are empty, the earliest on top.
	order []*bucketQueues
}

// NewQueues returns Queues with room for a number of buckets.
func NewQueues(most int) *Queues { return &Queues{most: most, byBucket: map[Bucket]*bucketQueues{}} }

// bucketQueues are the queues of one bucket.
type bucketQueues struct {
	of     Bucket
	limits []limitQueue
	// empty is the instant at which all of them are empty, and place the bucket's index in the heap.
	empty int64
	place int
}

type limitQueue struct {
	name string
	rate bucket.Rate
	Queue
}

// queue returns a pointer to the queue of a limit, adds an empty one for a new limit, and sets its drain rate.
// The pointer is valid until the next new limit.
func (b *bucketQueues) queue(name string, rate bucket.Rate) *Queue {
	for i := range b.limits {
		if b.limits[i].name == name {
			b.limits[i].rate = rate
			return &b.limits[i].Queue
		}
	}
	b.limits = append(b.limits, limitQueue{name: name, rate: rate})
	return &b.limits[len(b.limits)-1].Queue
}

// Admit adds the requested amounts to the queues of a bucket if all of them fit. Before, each queue rises to
// the usage in the bucket's last image. It sets the Level of every ask, in millitokens, also after a denial; if
// room is false, the memory is full, and nothing was decided.
func (t *Queues) Admit(of Bucket, asks []Ask, now int64) (admitted, room bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.queuesOf(of, now)
	if b == nil {
		return false, false
	}
	defer t.updateOrder(b)
	admitted = true
	for _, a := range asks {
		q := b.queue(a.Name, a.Share)
		if a.Amount <= a.Share.Burst { // else an empty queue has room for it alone
			q.Raise(a.Share, a.Used, now)
		}
		_, fits := q.Fits(a.Share, a.Amount, now)
		admitted = admitted && fits && a.Amount <= a.Burst
	}
	if admitted {
		b.change(asks, now)
	}
	for i := range asks {
		asks[i].Level = b.queue(asks[i].Name, asks[i].Share).Level(asks[i].Share, now)
	}
	return admitted, true
}

// Change adds positive amounts to the queues of a bucket, and takes out negative ones. It never denies. It does
// nothing for a bucket beyond the bound.
func (t *Queues) Change(of Bucket, asks []Ask, now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.queuesOf(of, now); b != nil {
		b.change(asks, now)
		t.updateOrder(b)
	}
}

// change adds amounts of 0 or more to the queues of their limits at now, and takes out negative ones, not below
// empty. It does not update the heap.
func (b *bucketQueues) change(asks []Ask, now int64) {
	for _, a := range asks {
		if q := b.queue(a.Name, a.Share); a.Amount >= 0 {
			q.Fill(a.Share, a.Amount, now)
		} else {
			q.Give(a.Share, -a.Amount, now)
		}
	}
}

// queuesOf returns the queues of a bucket. It makes new ones if there is room, or in place of another bucket's
// that have emptied by now, which it forgets. Otherwise it returns nil; t.mu must be held.
func (t *Queues) queuesOf(of Bucket, now int64) *bucketQueues {
	if b := t.byBucket[of]; b != nil {
		return b
	}
	if len(t.order) >= t.most {
		if t.order[0].empty > now {
			return nil
		}
		gone, _ := heap.Pop((*emptyFirst)(t)).(*bucketQueues)
		delete(t.byBucket, gone.of)
	}
	b := &bucketQueues{of: of}
	t.byBucket[of] = b
	heap.Push((*emptyFirst)(t), b)
	return b
}

// updateOrder computes when b's queues will be empty after a change, and restores the order of the heap. t.mu
// must be held.
func (t *Queues) updateOrder(b *bucketQueues) {
	b.empty = 0
	for i := range b.limits {
		b.empty = max(b.empty, b.limits[i].emptyAt(b.limits[i].rate))
	}
	heap.Fix((*emptyFirst)(t), b.place)
}

// emptyAt returns the instant, in ms, at which the queue is empty, if it drains at a rate and nothing is added.
// It changes nothing.
func (q Queue) emptyAt(r bucket.Rate) int64 {
	r.Burst = math.MaxInt64
	return q.at + bucket.State{Rate: r, Tokens: r.Burst - q.filled, Refilled: q.at}.Wait(q.at, r.Burst)
}

// emptyFirst makes a heap of Queues.
type emptyFirst Queues

// Len returns the number of buckets with queues, for package heap.
func (t *emptyFirst) Len() int { return len(t.order) }

// Less reports whether the queues of bucket i are empty before those of bucket j, for package heap.
func (t *emptyFirst) Less(i, j int) bool { return t.order[i].empty < t.order[j].empty }

// Swap swaps two buckets of the heap and stores their new places, for package heap.
func (t *emptyFirst) Swap(i, j int) {
	t.order[i], t.order[j] = t.order[j], t.order[i]
	t.order[i].place, t.order[j].place = i, j
}

// Push appends the queues of a bucket and stores their place, for package heap.
func (t *emptyFirst) Push(b any) {
	one, _ := b.(*bucketQueues)
	one.place = len(t.order)
	t.order = append(t.order, one)
}

// Pop removes and returns the last element, the *bucketQueues that heap.Pop has moved there.
func (t *emptyFirst) Pop() any {
	last := len(t.order) - 1
	b := t.order[last]
	t.order[last] = nil
	t.order = t.order[:last]
	return b
}
