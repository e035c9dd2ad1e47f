package config

import (
	"strings"
	"sync"

	"github.com/dynalimit/dynalimit/sources"
)

// Kind is the part of a configuration that many have in common. The configurations of one Cache share it,
// which saves memory. It is never changed.
type Kind struct {
	answers
	// Groups are the groups of the resource, sorted; empty for a group.
	Groups []string
}

// answers are the comparable parts of a Kind.
type answers struct {
	// Source is the source that won: the one of the limits, or the unlimited one; "" for neither.
	Source sources.Source
	// Blocked is the source that blocks calls; "" if they are not blocked.
	Blocked sources.Source
	// Plan is the plan that the entity's record names, or that the call gives; "" without a plan.
	Plan string
	// OnUnavailable is the policy of the most specific source that has one, and SystemPolicy the system's own;
	// "" for no policy.
	OnUnavailable, SystemPolicy string
	// Permanent means that some limits are the entity's own, so that its bucket has no ttl.
	Permanent bool
	// Unlimited means that the source that won lifts all limits, including those of Options. Counted means
	// that a source is unlimited, while less specific limits, or else those of Options, count its calls.
	Unlimited, Counted bool
	// Cascade and Detached are those of the entity's record. SaysParent means that the record decides about a
	// parent. A record in deletion does not.
	Cascade, Detached, SaysParent bool
	// Record means that the entity has a record that is not in deletion. Recorded means that it has such a
	// record, or a source of its own for the resource or for all resources.
	Record, Recorded bool
	// Group means that the configuration is of a group of resources.
	Group bool
	// groups are Groups, with commas between.
	groups string
}

// mostKinds bounds the number of known kinds.
const mostKinds = 1000

// kinds are the kinds of the configurations of a Cache. The zero value is ready.
type kinds struct {
	mu    sync.Mutex
	known map[answers]*Kind
}

// share returns the shared kind of the answers, for a resource of groups.
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
