package config

import (
	"strings"
	"sync"

	"github.com/dynalimit/dynalimit/levels"
)

// Kind is the part of a configuration that many have alike: those of one Cache share it, so that it
// takes no room in a cache of many. It is never changed.
type Kind struct {
	answers
	// Groups are those of the resource, sorted; empty of a group.
	Groups []string
}

// answers are the parts of a Kind that can be compared.
type answers struct {
	// Level is the level that won: where the limits came from, or which is unlimited; "" when no
	// level says either.
	Level levels.Level
	// Blocked is the level that admits nothing, "" for none.
	Blocked levels.Level
	// Plan is the plan that the entity's record names, or that the call gives, "" for none.
	Plan string
	// OnUnavailable is the policy of the most specific level that has one, and SystemPolicy the
	// system's own; "" for none.
	OnUnavailable, SystemPolicy string
	// Permanent means that some limits are the entity's own, so that its bucket has no ttl.
	Permanent bool
	// Unlimited means that the level that won lifts all limits, Options' too. Counted means that a
	// level is unlimited and that less specific limits, or else Options', count its calls.
	Unlimited, Counted bool
	// Cascade and Detached are those of the entity's record. SaysParent means that the record says
	// something of a parent; one that is being deleted says nothing.
	Cascade, Detached, SaysParent bool
	// Record means that the entity has a record that is not being deleted. Recorded means that it has
	// one, or a level of its own for the resource or for all resources.
	Record, Recorded bool
	// Group means that it is of a group of resources.
	Group bool
	// groups are Groups, with commas between.
	groups string
}

// mostKinds bounds how many kinds are known at a time.
const mostKinds = 1000

// kinds are those of the configurations of a Cache. The zero value is ready.
type kinds struct {
	mu    sync.Mutex
	known map[answers]*Kind
}

// share returns the one kind of the answers, on a resource of groups.
func (s *kinds) share(a answers, groups []string) *Kind {
	a.groups = strings.Join(groups, ",")
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.known[a]; one != nil {
		return one
	}
	if s.known == nil || len(s.known) == mostKinds { // those in use live on with their configurations
		s.known = map[answers]*Kind{}
	}
	one := &Kind{a, groups}
	s.known[a] = one
	return one
}
