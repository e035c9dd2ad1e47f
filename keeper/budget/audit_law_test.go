package budget

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/internal/store"
)

// changes notes, of every request that a DB commits, whether it changed what an
// administrator changes and how many events it wrote. Every test of a world has it: there
// is no change without its event, and no event without its change.
type changes struct {
	mu      sync.Mutex
	changed map[int64]string // what, by request
	events  map[int64]int
}

func watchChanges(db *ddbmem.DB) *changes {
	c := &changes{changed: map[int64]string{}, events: map[int64]int{}}
	db.OnWrite(func(w ddbmem.Write) {
		if w.Operation == "" { // an expiry
			return
		}
		item := w.New
		if item == nil {
			item = w.Old
		}
		key := store.KeyOf(item)
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case strings.HasPrefix(key.SK, "#AUDIT#") && w.New["action"] != nil && w.New["principal"] != nil:
			c.events[w.RequestSeq]++
		case w.Operation == "UpdateItem" && w.Old["deleted_at_epoch"] != nil && w.New["deleted_at_epoch"] != nil:
			// A tombstone gets its time to live: the deletion had its event.
		case w.Operation == "UpdateItem" && key == settingsKey: // a keeper stores its own days
		case administered(key, w.New):
			c.changed[w.RequestSeq] = key.PK + " " + key.SK
		}
	})
	return c
}

// administered says that an item is what an administrator changes. An app that only made
// calls has an item without a version.
func administered(key store.Key, item store.Item) bool {
	var d store.Decoder
	switch {
	case strings.HasPrefix(key.PK, "ORG#") && strings.HasPrefix(key.SK, appPrefix):
		return d.Int(item, "cfg_version") != 0
	case strings.HasPrefix(key.PK, "ORG#"):
		return key.SK == "#" || strings.HasPrefix(key.SK, overPrefix)
	}
	return key == settingsKey || strings.HasPrefix(key.PK, "PRICE#") || strings.HasPrefix(key.PK, "AUDIT#ORG#")
}

func (c *changes) check(t testing.TB) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for request, what := range c.changed {
		if strings.HasPrefix(what, "AUDIT#ORG#") { // adjustments share transactions
			assert.Positive(t, c.events[request], what)
			continue
		}
		assert.Equal(t, 1, c.events[request], "the events of a change of %s", what)
	}
	for request := range c.events {
		assert.NotEmpty(t, c.changed[request], "an event without its change")
	}
}
