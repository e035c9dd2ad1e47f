package ledger

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// violation is what is wrong with a state, empty when nothing is.
func (w *xWorld) violation(s xState) string {
	for i, c := range s.clients {
		if c.phase == xWrong {
			return fmt.Sprintf("client %d denied although %d is spent of %d", i, s.spent, s.quota)
		}
		if c.phase == xDone && s.holds[i] != xNone {
			return fmt.Sprintf("client %d is done and its hold still open", i)
		}
	}
	used := s.used
	if used == xMissing {
		used = 0
	} else if w.rules.storeLeft {
		used = s.quota - used
	}
	if w.rules.noSoft && w.rules.noRaise && used > s.quota {
		return fmt.Sprintf("used %d of %d", used, s.quota)
	}
	for _, c := range s.clients {
		if c.phase != xDone && c.phase != xDead && c.phase != xDenied && c.phase != xIdle {
			return ""
		}
	}
	if s.holds != [xClients]xHold{} {
		return ""
	}
	if s.spent != s.money {
		return fmt.Sprintf("%d recorded, %d really spent", s.spent, s.money)
	}
	if s.used != xMissing && used != s.spent {
		return fmt.Sprintf("used %d, spent %d and no hold open", used, s.spent)
	}
	return ""
}

func search(rules xRules) (states int, violation string, trace []string) {
	first := xState{used: xMissing, quota: xQuota}
	w := &xWorld{rules: rules, seen: map[xState]xStep{first: {}}, queue: []xState{first}}
	for len(w.queue) > 0 {
		s := w.queue[0]
		w.queue = w.queue[1:]
		states++
		if v := w.violation(s); v != "" {
			for at := s; at != first; at = w.seen[at].from {
				trace = append([]string{w.seen[at].what}, trace...)
			}
			return states, v, trace
		}
		w.steps(s)
	}
	return states, "", nil
}

// TestEveryStateOfHardMode: complete, no violation, with and without what may
// push spend beyond the quota.
func TestEveryStateOfHardMode(t *testing.T) {
	for _, rules := range []xRules{
		{name: "all rules, a plain submission and a raised quota"},
		{name: "all rules, reservations alone", noSoft: true, noRaise: true},
	} {
		states, violation, trace := search(rules)
		require.Empty(t, violation, "%s: %s", rules.name, strings.Join(trace, "\n"))
		assert.Greater(t, states, 500)
		t.Logf("%s: complete, no violation, %d states", rules.name, states)
	}
}

// TestEveryRuleOfHardModeIsNeeded: the same search finds what goes wrong
// without each.
func TestEveryRuleOfHardModeIsNeeded(t *testing.T) {
	for _, rules := range []xRules{
		{name: "reserve debits first and puts the hold after", splitReserve: true, noSoft: true, noRaise: true},
		{name: "settle only while the hold exists", needHold: true, noSoft: true, noRaise: true},
		{name: "no dedup item in a settlement", noDedup: true, noSoft: true, noRaise: true},
		{name: "a duplicate settlement keeps its hold", keepHold: true, noRaise: true},
		{name: "settle, and submit the record too", recordToo: true, noSoft: true, noRaise: true},
		{name: "store what is left, and submit plainly", storeLeft: true, noRaise: true},
		{name: "store what is left, and raise the quota", storeLeft: true, noSoft: true},
		{name: "deny without giving expired holds back", ignoreExpired: true, noSoft: true, noRaise: true},
	} {
		states, violation, trace := search(rules)
		assert.NotEmpty(t, violation, rules.name)
		t.Logf("%s: %s, after %d steps, %d states", rules.name, violation, len(trace), states)
	}
}
