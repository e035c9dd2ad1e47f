package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/ledger"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/report"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// survey reads usage by consumer without counting twice. The total is, for each cascade and
// limit, the usage of the highest entity with the limit. The usage of an entity is its own plus
// that of the children that cascade into it.
type survey struct {
	repo   *dynalimit.Repository
	reader *aggregator.Reader
	entity string // empty for all entities
	top    int
	query  aggregator.Query
	starts []time.Time
	column map[int64]int // column of a window by its start in unix seconds
	// tell is called with the resource being read and the progress.
	tell func(resource string, done, of int)
}

// setStarts sets the windows of the survey by their starts, and s.column: the index of each.
func (s *survey) setStarts(starts []time.Time) {
	s.starts, s.column = starts, map[int64]int{}
	for i, at := range starts {
		s.column[at.Unix()] = i
	}
	if starts == nil {
		s.starts = []time.Time{}
	}
}

// tally is the usage counted by one limit in each window.
type tally struct {
	counted []aggregator.LimitUsage
	open    []bool
	known   []bool // whether usage was found
}

// tallies is the tallies of a resource's limits by name.
type tallies map[string]*tally

// consumer is an entity with usage of a resource.
type consumer struct {
	admin.Entity
	used tallies
}

// readResources reads the usage of each resource, in total and by consumer, and returns the report of each
// resource that has usage.
func (s *survey) readResources(ctx context.Context) ([]report.Resource, error) {
	users, err := s.readUsers(ctx)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(users))
	groups, err := s.findGroups(ctx, names)
	if err != nil {
		return nil, err
	}
	all := []report.Resource{}
	for _, name := range names {
		q := s.query
		q.Resource = name
		var read atomic.Int64
		used, err := readTogether(ctx, users[name], func(ctx context.Context, u consumer) (tallies, error) {
			defer func() { s.tell(name, int(read.Add(1)), len(users[name])) }()
			return s.tallyUsage(s.reader.Entity(ctx, u.ID, q), s.entity == "")
		})
		if err != nil {
			return nil, err
		}
		for i := range users[name] {
			users[name][i].used = used[i]
		}
		total, err := s.readTotal(ctx, q)
		if err != nil {
			return nil, err
		}
		if r := s.resourceReport(name, total, users[name]); len(r.Limits) > 0 {
			r.Group = groups[name]
			all = append(all, r)
		}
	}
	return all, nil
}

// findGroups returns the set of groups of the given resources. It returns nil if a configuration
// cannot be decoded.
func (s *survey) findGroups(ctx context.Context, resources []string) (map[string]bool, error) {
	scopes := make([]admin.Scope, len(resources))
	for i, name := range resources {
		scopes[i] = admin.Scope{Everyone: true, Resource: name}
	}
	configs, err := admin.New(s.repo).Limits.GetConfigs(ctx, scopes)
	if _, malformed := errors.AsType[*dynalimit.ValidationError](err); malformed {
		return nil, nil // 'doctor' reports an unreadable source
	}
	groups := map[string]bool{}
	for _, c := range configs {
		for _, group := range c.Config.Groups {
			groups[group] = true
		}
	}
	return groups, err
}

// readUsers returns the consumers of each resource: the children of s.entity or, if that is "",
// every entity that used the resource.
func (s *survey) readUsers(ctx context.Context) (map[string][]consumer, error) {
	users := map[string][]consumer{}
	if s.entity != "" {
		return users, s.readChildren(ctx, users)
	}
	used, err := s.reader.Used(ctx, s.query)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(used))
	for i, one := range used {
		ids[i] = one.Entity
	}
	entities, err := admin.New(s.repo).Entities.GetMany(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i, one := range used {
		users[one.Resource] = append(users[one.Resource], consumer{Entity: entities[i]})
	}
	return users, nil
}

// readChildren adds the children whose calls charge the entity, for each resource that it used.
func (s *survey) readChildren(ctx context.Context, users map[string][]consumer) error {
	for u, err := range s.reader.Entity(ctx, s.entity, s.query) {
		if err != nil {
			return err
		}
		users[u.Resource] = nil
	}
	if len(users) == 0 {
		return nil
	}
	for child, err := range admin.New(s.repo).Entities.Children(ctx, s.entity) {
		if err != nil {
			return err
		}
		for resource := range users {
			if !child.Detached {
				users[resource] = append(users[resource], consumer{Entity: child})
			}
		}
	}
	return nil
}

// readTotal returns the usage of the query's resource by s.entity or, if that is "", by all
// entities.
func (s *survey) readTotal(ctx context.Context, q aggregator.Query) (tallies, error) {
	if s.entity != "" {
		return s.tallyUsage(s.reader.Entity(ctx, s.entity, q), false)
	}
	return s.tallyUsage(s.reader.Resource(ctx, q.Resource, q), false)
}

// tallyUsage groups usage by limit and window, and skips usage outside the windows of the survey. If once is
// true, it subtracts the amounts that a parent counts too.
func (s *survey) tallyUsage(all usages, once bool) (tallies, error) {
	found := tallies{}
	for u, err := range all {
		if err != nil {
			return nil, err
		}
		i, ok := s.column[u.Start.Unix()]
		if !ok {
			continue
		}
		for _, l := range u.Limits {
			if once && l.Passed != 0 {
				if l.Consumed -= l.Passed; l.Consumed == 0 {
					continue
				}
			}
			t := found.tallyFor(l.Limit, len(s.starts))
			t.counted[i], t.open[i], t.known[i] = l, u.Open, true
		}
	}
	return found, nil
}

// tallyFor returns the tally of a limit. It adds an empty one for so many windows if the limit is
// new.
func (t tallies) tallyFor(limit string, windows int) *tally {
	if t[limit] == nil {
		t[limit] = &tally{make([]aggregator.LimitUsage, windows), make([]bool, windows), make([]bool, windows)}
	}
	return t[limit]
}

// resourceReport returns the page's data of a resource: a chart for each limit. If the survey is of all
// entities, it first completes total, in place, by the sums of users.
func (s *survey) resourceReport(name string, total tallies, users []consumer) report.Resource {
	if s.entity == "" {
		s.completeTotal(total, users)
	}
	r := report.Resource{Name: name, Limits: []report.Limit{}}
	for _, limit := range slices.Sorted(maps.Keys(total)) {
		r.Limits = append(r.Limits, s.limitReport(limit, total[limit], users))
	}
	return r
}

// completeTotal sets each window of total without a stored sum to the sum of the users' usage.
func (s *survey) completeTotal(total tallies, users []consumer) {
	for _, u := range users {
		for limit := range u.used {
			total.tallyFor(limit, len(s.starts))
		}
	}
	for limit, t := range total {
		for i := range s.starts {
			if !t.known[i] {
				t.counted[i], t.open[i] = sumOf(users, limit, i)
			}
		}
	}
}

// sumOf returns the sum of the users' usage of a limit in a window. found is false if there was no
// usage.
func sumOf(users []consumer, limit string, window int) (sum aggregator.LimitUsage, found bool) {
	sum.Limit = limit
	for _, u := range users {
		if part := u.used[limit]; part != nil && part.known[window] {
			sum, found = ledger.SumUsage(sum, part.counted[window]), true
		}
	}
	return sum, found
}

// limitReport returns the chart data of a limit, in millitokens: its totals, its s.top highest users, and marks
// of incomplete windows.
func (s *survey) limitReport(name string, total *tally, users []consumer) report.Limit {
	l := report.Limit{Name: name, Total: make([]int64, len(s.starts)), Entities: []report.Series{}, Marks: []report.Mark{}}
	for i, counted := range total.counted {
		l.Total[i] = counted.Consumed
		m := report.Mark{
			Window: i, Open: total.open[i], Pending: counted.Pending, Unrecorded: counted.Unrecorded, Unseen: counted.Unseen,
		}
		if m != (report.Mark{Window: i}) {
			l.Marks = append(l.Marks, m)
		}
	}
	ranked := rankedBy(name, users)
	for _, u := range ranked[:min(s.top, len(ranked))] {
		l.Entities = append(l.Entities, u.asSeries(name))
	}
	if s.entity != "" {
		if l.Others = "itself"; len(ranked) > s.top {
			l.Others = "itself and others"
		}
	}
	return l
}

// rankedBy returns the users with usage of a limit, the highest sum first, equal ones by id.
func rankedBy(limit string, users []consumer) []consumer {
	var some []consumer
	sums := map[string]int64{}
	for _, u := range users {
		if t := u.used[limit]; t != nil {
			some = append(some, u)
			for _, counted := range t.counted {
				sums[u.ID] = notation.Sum(sums[u.ID], counted.Consumed)
			}
		}
	}
	slices.SortFunc(some, func(a, b consumer) int {
		return cmp.Or(cmp.Compare(sums[b.ID], sums[a.ID]), cmp.Compare(a.ID, b.ID))
	})
	return some
}

// asSeries returns a consumer's usage of a limit in each window, in millitokens, for the chart.
func (u consumer) asSeries(limit string) report.Series {
	t := u.used[limit]
	series := report.Series{Entity: u.ID, Parent: u.ParentID, Values: make([]int64, len(t.counted))}
	for i, counted := range t.counted {
		series.Values[i] = counted.Consumed
	}
	return series
}
