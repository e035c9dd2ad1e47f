package lambda

import "sync"

// mostKept bounds the number of remembered records. It is the size of the largest batch.
const mostKept = 10_000

// tries counts the failed reads of records, by their ids.
type tries struct {
	most int

	mu     sync.Mutex
	failed map[string]int
	order  []string // the oldest first
}

// verdict is the decision about an unreadable record.
type verdict int

const (
	again   verdict = iota // it is tried again
	skip                   // it is given up
	skipped                // it was given up before
)

// countFailure counts a failed read of the record with the id and returns the verdict. It is again, skip at the
// last try, and skipped from then on. It keeps 10,000 records and forgets the oldest, which begin anew.
func (t *tries) countFailure(id string) verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, known := t.failed[id]
	if !known {
		if len(t.order) == mostKept {
			delete(t.failed, t.order[0])
			t.order = t.order[1:]
		}
		t.order = append(t.order, id)
	}
	if n >= t.most {
		return skipped
	}
	t.failed[id] = n + 1
	if n+1 == t.most {
		return skip
	}
	return again
}
