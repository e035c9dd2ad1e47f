package manifest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// state is what a table says, as far as it limits calls.
type state struct {
	configs map[admin.Scope]admin.LimitConfig
	plans   map[string]string // of entities
}

// sources are those that may limit a call, the most specific first.
func (s state) sources(id, resource string) []admin.Scope {
	sources := []admin.Scope{{Entity: id, Resource: resource}, {Entity: id}}
	if plan := s.plans[id]; plan != "" {
		sources = append(sources, admin.Scope{Plan: plan, Resource: resource}, admin.Scope{Plan: plan})
	}
	return append(sources, admin.Scope{Everyone: true, Resource: resource}, admin.Scope{Everyone: true})
}

// groupSources are those that may limit a call by a group.
func (s state) groupSources(id, group string) []admin.Scope {
	return slices.DeleteFunc(s.sources(id, group), func(at admin.Scope) bool { return at.Resource == "" })
}

// groups are those of a resource.
func (s state) groups(resource string) []string {
	return s.configs[admin.Scope{Everyone: true, Resource: resource}].Groups
}

// admits is what a call may use of rpm in a minute; -1 if nothing limits it, which is an error.
func (s state) admits(id, resource string) int64 {
	least := s.least(s.sources(id, resource))
	for _, group := range s.groups(resource) {
		if n := s.least(s.groupSources(id, group)); n >= 0 && least >= 0 {
			least = min(least, n)
		}
	}
	return least
}

// least is what the most specific of sources admits; -1 if none says.
func (s state) least(sources []admin.Scope) int64 {
	if slices.ContainsFunc(sources, func(at admin.Scope) bool { return s.configs[at].Blocked }) {
		return 0
	}
	for _, at := range sources {
		if l := s.configs[at]; l.Unlimited {
			return math.MaxInt64
		} else if len(l.Limits) > 0 {
			return l.Limits[0].Capacity
		}
	}
	return -1
}

// randomSource is a source with one limit, or none; a block too, if it may be.
func randomSource(random *rand.Rand, mayBlock bool) (l admin.LimitConfig) {
	draw := random.IntN(24)
	switch {
	case draw < 3:
		l.Unlimited = true
	case draw < 5:
		l.OnUnavailable = dynalimit.Allow
	default:
		l = rpm(1 + random.Int64N(50))
	}
	l.Blocked = mayBlock && random.IntN(8) == 0
	return l
}

// randomManifest has sources of every kind. Plans are not blocked, see drawn.
func randomManifest(random *rand.Rand) *Manifest {
	m := &Manifest{Name: "m", Configs: map[admin.Scope]admin.LimitConfig{{Everyone: true}: rpm(1 + random.Int64N(50))}, Entities: map[string]Entity{}}
	put := func(mayBlock bool, scopes ...admin.Scope) {
		for _, at := range scopes {
			if random.IntN(2) == 0 {
				m.Configs[at] = randomSource(random, mayBlock)
			}
		}
	}
	put(true, admin.Scope{Everyone: true, Resource: "gpt-4"}, admin.Scope{Everyone: true, Resource: "b"}, admin.Scope{Everyone: true, Resource: "all"})
	for _, resource := range []string{"gpt-4", "b"} {
		if at := (admin.Scope{Everyone: true, Resource: resource}); random.IntN(2) == 0 {
			l := m.Configs[at]
			l.Groups = pick(random, [][]string{{"all"}, {"big"}, {"all", "big"}})
			m.Configs[at] = l
		}
	}
	put(false, admin.Scope{Plan: "pro", Resource: "all"}, admin.Scope{Plan: "pro"}, admin.Scope{Plan: "pro", Resource: "gpt-4"}, admin.Scope{Plan: "free"}, admin.Scope{Plan: "free", Resource: "gpt-4"})
	for _, id := range []string{"x", "y"} {
		e := Entity{Record: admin.Entity{ID: id, Plan: pick(random, []string{"", "pro", "free"})}}
		m.Entities[id] = e
		put(true, admin.Scope{Entity: id}, admin.Scope{Entity: id, Resource: "gpt-4"}, admin.Scope{Entity: id, Resource: "big"})
	}
	return m
}

// liveOf is a table that says what a manifest says.
func liveOf(m *Manifest) (*Live, state) {
	l := &Live{Configs: map[admin.Scope]admin.LimitConfig{}, Entities: map[string]admin.Entity{}}
	s := state{l.Configs, map[string]string{}}
	for at, c := range m.Configs {
		c.ManagedBy, c.Version = m.Name, 1
		l.Configs[at] = c
	}
	for id, e := range m.Entities {
		e.Record.ManagedBy, e.Record.Version = m.Name, 1
		l.Entities[id], s.plans[id] = e.Record, e.Record.Plan
	}
	return l, s
}

// unordered says whether no order keeps a call: limits of its own go, or those of its plan for a
// group, or it changes its plan
// while one of the sources that it leaves or comes to appears or goes. Nor is there one if its
// resource changes its groups together with its limits, or leaves one group and joins another.
func unordered(before, after state, id, resource string) bool {
	appears := func(at admin.Scope) bool { return isDecisive(before.configs[at]) != isDecisive(after.configs[at]) }
	goes := func(at admin.Scope) bool {
		group := slices.Contains(before.groups(resource), at.Resource) || slices.Contains(after.groups(resource), at.Resource)
		return (at.Entity != "" || at.Plan != "" && group) && isDecisive(before.configs[at]) && appears(at)
	}
	sources := append(before.sources(id, resource), after.sources(id, resource)...)
	for _, group := range append(slices.Clone(before.groups(resource)), after.groups(resource)...) {
		sources = append(append(sources, before.groupSources(id, group)...), after.groupSources(id, group)...)
	}
	at := admin.Scope{Everyone: true, Resource: resource}
	leaves, joins := groupDifferences(before.configs[at], after.configs[at])
	if (leaves || joins) && len(sourceFields(before.configs[at], after.configs[at])) > 1 || leaves && joins {
		return true
	}
	return slices.ContainsFunc(sources, goes) || before.plans[id] != after.plans[id] && slices.ContainsFunc(sources, appears)
}

// From any manifest to any other, one change at a time, nobody is admitted more than before
// and than in the end, nor left without limits.
func TestNoCutBetweenAnyTwoManifestsAdmitsMore(t *testing.T) {
	ids, resources := []string{"x", "y", "nobody"}, []string{"gpt-4", "b", "other"}
	for seed := range seeds(6_000) {
		random := rand.New(rand.NewPCG(seed, 77))
		before, after := randomManifest(random), randomManifest(random)
		live, now := liveOf(before)
		_, start := liveOf(before)
		_, end := liveOf(after)
		p := Compare(after, live, Options{LiftBlocks: true})
		var done []string
		for _, ch := range p.Changes {
			switch {
			case ch.Scope == nil:
				now.plans[ch.Entity] = ch.record.Plan
			case ch.Action == Delete:
				delete(now.configs, *ch.Scope)
			default:
				now.configs[*ch.Scope] = ch.config
			}
			done = append(done, fmt.Sprintf("%d %s", ch.step, ch.What()))
			for _, id := range ids {
				for _, resource := range resources {
					least, most := min(start.admits(id, resource), end.admits(id, resource)), max(start.admits(id, resource), end.admits(id, resource))
					if got := now.admits(id, resource); (got > most || got < 0 && least >= 0) && !unordered(start, end, id, resource) {
						require.Fail(t, "admits more", "seed %d: %s on %s admits %d, not up to %d\n%s\n%+v\n%+v", seed, id, resource, got, most, strings.Join(done, "\n"), before, after)
					}
				}
			}
		}
		for _, id := range ids {
			for _, resource := range resources {
				require.Equal(t, end.admits(id, resource), now.admits(id, resource), "seed %d: %s on %s", seed, id, resource)
			}
		}
	}
}
