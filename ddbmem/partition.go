package ddbmem

import (
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/ddbmem/internal/value"
)

// partitions are the limits of partition keys. nil has none. It is safe for concurrent use.
type partitions struct {
	perSecond map[bool]float64 // of writes, and of reads

	mu   sync.Mutex
	left map[partitionUse]*allowance
}

// partitionUse is the reading or writing of one partition key.
type partitionUse struct {
	table string
	hash  value.Value
	write bool
}

// allowance is the remaining units of a second at an instant.
type allowance struct {
	units float64
	at    time.Time
}

// newPartitions returns limits of write and read units a second for each partition key; 0 is unlimited.
func newPartitions(write, read float64) *partitions {
	return &partitions{perSecond: map[bool]float64{true: write, false: read}, left: map[partitionUse]*allowance{}}
}

// allowanceNow refills the stored allowance of u, the reads or writes of a partition key, up to one second's
// units, and returns it. It stores a full one for a new key. It is nil if the kind has no limit. p.mu must be
// held.
func (p *partitions) allowanceNow(u partitionUse, now time.Time) *allowance {
	perSecond := p.perSecond[u.write]
	if perSecond <= 0 {
		return nil
	}
	a, ok := p.left[u]
	if !ok {
		a = &allowance{units: perSecond, at: now}
		p.left[u] = a
	}
	a.units = min(perSecond, a.units+now.Sub(a.at).Seconds()*perSecond)
	a.at = now
	return a
}

// isExhausted reports whether a partition key has no units left at the time now; u names the key and reads or
// writes. It is false if p is nil or the kind has no limit.
func (p *partitions) isExhausted(u partitionUse, now time.Time) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.allowanceNow(u, now)
	return a != nil && a.units <= 0
}

// takeUnits subtracts cost from the units that a partition key has left at the time now; u names the key and
// reads or writes. The rest may fall below zero. It does nothing if p is nil or the kind has no limit.
func (p *partitions) takeUnits(u partitionUse, cost halves, now time.Time) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if a := p.allowanceNow(u, now); a != nil {
		a.units -= cost.units()
	}
}

const throttledText = "Throughput exceeds the current capacity of your table or index. DynamoDB is automatically scaling your table or index so please try again shortly. If exceptions persist, check if you have a hot key: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html"
