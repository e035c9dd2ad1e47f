package backlog

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// found is what a search found: the law that broke first and the events that led to it.
type found struct {
	wrong, events string
	states        int
	complete      bool
}

// search visits every state of a world, breadth first, until a law breaks or so many events
// have happened.
func (w *world) search(depth int) found {
	type origin struct {
		before int
		event  string
	}
	first := model{exists: true, incarnation: 1, tokens: burst}
	seen, origins, level := map[model]int{first: 0}, []origin{{before: -1}}, []model{first}
	trace := func(at int, last string) string {
		events := []string{last}
		for ; at > 0; at = origins[at].before {
			events = append(events, origins[at].event)
		}
		for i, k := 0, len(events)-1; i < k; i, k = i+1, k-1 {
			events[i], events[k] = events[k], events[i]
		}
		return strings.Join(events, "; ")
	}
	for range depth {
		var next []model
		for _, m := range level {
			at := seen[m]
			for _, n := range w.next(m) {
				if n.wrong == "" {
					n.wrong = n.broken()
				}
				if n.wrong != "" {
					return found{wrong: n.wrong, events: trace(at, n.event), states: len(seen)}
				}
				if _, known := seen[n.model]; known || n.outages > 3 {
					continue
				}
				seen[n.model] = len(origins)
				origins = append(origins, origin{at, n.event})
				next = append(next, n.model)
			}
		}
		if level = next; len(level) == 0 {
			return found{states: len(seen), complete: true}
		}
	}
	return found{states: len(seen)}
}

// TestEveryOrderOfEventsKeepsTheLaw visits every state of one lease, and those of more
// leases, deletions and resets up to a number of events.
func TestEveryOrderOfEventsKeepsTheLaw(t *testing.T) {
	for name, test := range map[string]struct {
		world
		depth, short int
	}{
		"one lease":                        {world{leases: 1}, 60, 8},
		"one lease, deletions and resets":  {world{leases: 1, deletions: true, resets: true}, 8, 6},
		"two leases, deletions and resets": {world{leases: 2, deletions: true, resets: true}, 5, 4},
		"two processes":                    {world{leases: 2, apart: true}, 6, 4},
		"three leases, two processes":      {world{leases: 3}, 5, 4},
	} {
		t.Run(name, func(t *testing.T) {
			depth := test.depth
			if testing.Short() {
				depth = test.short
			}
			f := test.search(depth)
			assert.Empty(t, f.wrong, f.events)
			assert.Equal(t, depth == 60, f.complete)
			t.Logf("%d states", f.states)
		})
	}
}

// TestEachRuleIsNeeded leaves one rule out: a law breaks.
func TestEachRuleIsNeeded(t *testing.T) {
	for rule, wrong := range map[string]string{
		"what is counted is not held":                        "gave back what was not taken",
		"doubt is not held":                                  "gave back what was not taken",
		"a late grant is given back":                         "too much is told",
		"a late grant is not held":                           "too much is told",
		"a take whose caller was admitted is not sent again": "too much is told",
		"counts are sent once":                               "too much is told",
		"give-backs are sent once":                           "gave back what was not taken",
		"doubt goes both ways":                               "too much is told",
		"corrections of counts":                              "too much is told",
		"doubt of what is given up":                          "too much is told",
		"incarnation of a give-back":                         "gave back what was not taken",
		"a bucket that is gone is made, or told":             "too little is told",
	} {
		t.Run(rule, func(t *testing.T) {
			w := world{without: rule, leases: 1, deletions: strings.Contains(rule, "gone") || strings.Contains(rule, "incarnation")}
			f := w.search(8)
			assert.Equal(t, wrong, f.wrong, "after %d states: %s", f.states, f.events)
		})
	}
}
