package tests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/laws"
	"github.com/dynalimit/dynalimit/internal/laws/rules"
)

// TestLaws plays generated histories of several limiters on one table and holds
// what was committed against the laws of docs/design/protocol.md.
func TestLaws(t *testing.T) {
	for _, mode := range laws.Modes {
		t.Run(mode.Name, func(t *testing.T) {
			first, end := laws.Seeds(t)
			tally, began := map[string]int{}, time.Now()
			for seed := first; seed < end; seed++ {
				r := laws.Play(t, seed, mode)
				if len(r.Violations) > 0 {
					t.Fatalf("seed %d (replay with %s=%d): %d violations, the first:\n%s", seed, laws.SeedVariable, seed, len(r.Violations), r.First(5))
				}
				for what, n := range r.Tally {
					tally[what] += n
				}
			}
			t.Logf("%v each, %v", time.Since(began)/time.Duration(end-first), tally)
		})
	}
}

// TestLawsBreakWithoutRules leaves one clause out of what clients send, and
// plays histories until one breaks a law.
func TestLawsBreakWithoutRules(t *testing.T) {
	const most = 200
	for name, rule := range map[string]rules.Rule{
		"rf = :seen": rules.Seen, "upper bound": rules.UpperBound, "lower bound": rules.LowerBound,
	} {
		t.Run(name, func(t *testing.T) {
			requireBroken(t, most, laws.Mode{Name: "exact", Store: rules.LeaveOut(rule)})
		})
	}
}

// TestLawsBreakWithoutRulesOfQuotas leaves one clause on quotas out of what clients with wrong
// clocks send.
func TestLawsBreakWithoutRulesOfQuotas(t *testing.T) {
	for name, rule := range map[string]rules.Rule{"w = :seen": rules.Window, "tk >= :low": rules.Room} {
		t.Run(name, func(t *testing.T) {
			mode := laws.Skewed()
			mode.Store = rules.LeaveOut(rule)
			requireBroken(t, 400, mode)
		})
	}
}

// requireBroken plays histories until one breaks a law.
func requireBroken(t *testing.T, most uint64, mode laws.Mode) {
	t.Helper()
	for seed := range most {
		if r := laws.Play(t, seed, mode); len(r.Violations) > 0 {
			t.Logf("history %d: %s", seed, r.First(1))
			return
		}
	}
	require.Fail(t, "every law held", "in %d histories without this rule", most)
}

// TestLawsBreakWithoutTheHorizon lets limiters admit what they debited ahead for longer
// than they may, and give back what lapsed.
func TestLawsBreakWithoutTheHorizon(t *testing.T) {
	for name, change := range map[string]func(*laws.Mode){
		"horizon": func(m *laws.Mode) { m.Overstay = 100 },
		"lapsed":  func(m *laws.Mode) { m.Store = rules.LeaveOut(rules.GiveBackLapsed) },
	} {
		t.Run(name, func(t *testing.T) {
			mode := laws.Prefetching()
			change(&mode)
			requireBroken(t, 200, mode)
		})
	}
}
