package keeper

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// hot is a store's latency and its conflicts. A transaction that meets another on a counter is refused, as in
// DynamoDB. Each one occupies its counters for busy.
type hot struct {
	latency, busy time.Duration

	mu           sync.Mutex
	until        map[string]time.Time // by counter
	transactions int64
	conflicts    int64
}

// newHot returns a store's behaviour: latency of each request, and busy, the time in which a
// counter refuses another transaction.
func newHot(latency, busy time.Duration) *hot {
	return &hot{latency: latency, busy: busy, until: map[string]time.Time{}}
}

// fault returns the latency of a request. A transaction conflicts if one of its counters was written within the
// last h.busy; fault counts both. It is for ddbmem.DB.SetFaults.
func (h *hot) fault(r *ddbmem.Request) ddbmem.Fault {
	f := ddbmem.Fault{Before: h.latency / 2, After: h.latency - h.latency/2}
	if r.Operation != "TransactWriteItems" || h.busy == 0 {
		return f
	}
	counters := countersOf(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.transactions++
	now := time.Now()
	for _, c := range counters {
		if now.Before(h.until[c]) {
			h.conflicts++
			f.Error = &ddbmem.Error{Code: "TransactionCanceledException", Reasons: []ddbmem.Reason{{Code: "TransactionConflict"}}}
			return f
		}
	}
	for _, c := range counters {
		h.until[c] = now.Add(h.busy)
	}
	return f
}

// readUsage returns the store's usage so far. It also turns on the latency and the conflicts of requests.
func (h *hot) readUsage(db *ddbmem.DB) (used, error) {
	out, err := db.Client().DescribeTable(context.Background(), &dynamodb.DescribeTableInput{TableName: &tables.Usage})
	if err != nil {
		return used{}, err
	}
	db.SetFaults(h.fault)
	h.mu.Lock()
	defer h.mu.Unlock()
	return used{
		Meter: db.Meter(), Store: processorTime(), Bytes: *out.Table.TableSizeBytes, Items: *out.Table.ItemCount,
		Transactions: h.transactions, Conflicts: h.conflicts,
	}, nil
}

// countersOf returns the keys, as "PK SK", of the counters that a TransactWriteItems request adds to; nil for a
// malformed body.
func countersOf(body []byte) []string {
	var t struct {
		TransactItems []struct {
			Update struct {
				Key struct {
					PK, SK struct{ S string }
				}
			}
		}
	}
	if err := json.Unmarshal(body, &t); err != nil {
		return nil // ddbmem refuses it
	}
	var names []string
	for _, item := range t.TransactItems {
		if key := item.Update.Key; strings.Contains(key.SK.S, "#SH#") {
			names = append(names, key.PK.S+" "+key.SK.S)
		}
	}
	return names
}
