package console

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
)

const (
	// keepBuckets is how long visitors share the values of a bucket, and keepLists how long lists, records and
	// configurations of lists are shared. keepUsage is that of closed windows.
	keepBuckets, keepLists, keepUsage = 2 * time.Second, 3 * time.Minute, 3 * time.Minute
	// keepStale is how long the last values are shown while the table does not answer.
	keepStale = 10 * time.Minute
	// mostKept bounds the kept values.
	mostKept = 20_000
)

// errBusy means that the read units of this minute are used up.
var errBusy = errors.New("dynalimit: console: the read units of this minute are used up")

// reads reads the table for all visitors. It shares values by their key, and counts read units.
type reads struct {
	admin *admin.Admin
	repo  *dynalimit.Repository
	usage *aggregator.Reader
	now   func() time.Time
	most  float64

	mu     sync.Mutex
	kept   map[string]kept
	minute time.Time
	used   map[string]float64 // read units of the minute, by principal
	before map[string]float64 // those of the last minute with requests
	// money are the names of limits of money that were seen. A bucket stores no unit.
	money map[string]bool
}

// kept is a value with the time of its read.
type kept struct {
	value any
	at    time.Time
}

// newReads returns reads without kept values, which use at most most read units a minute. usage may be nil.
func newReads(a *admin.Admin, repo *dynalimit.Repository, usage *aggregator.Reader, most float64, now func() time.Time) *reads {
	return &reads{admin: a, repo: repo, usage: usage, now: now, most: most, kept: map[string]kept{}, used: map[string]float64{}, money: map[string]bool{}}
}

// visit is the reads of one request.
type visit struct {
	*reads
	access Access
	// stale is the time of the oldest value that is shown because the table does not answer; zero without one.
	stale time.Time
	// busy means that this is so because the read units are used up.
	busy bool
	// fresh means that entities are read anew, for a change.
	fresh bool
}

// takeUnits adds read units to the principal's of this minute, or returns errBusy and adds nothing if that
// exceeds a bound. One principal gets a quarter in a minute in which others ask, or asked in the minute before.
// At a new minute it drops values too old to show.
func (v *visit) takeUnits(units float64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if minute := v.now().Truncate(time.Minute); !minute.Equal(v.minute) {
		v.minute, v.before, v.used = minute, v.used, map[string]float64{}
		maps.DeleteFunc(v.kept, func(_ string, k kept) bool { return minute.Sub(k.at) > keepStale })
	}
	v.used[v.access.Principal] += 0 // asks, also if it gets nothing
	total := 0.0
	for _, n := range v.used {
		total += n
	}
	most := v.most
	for _, asked := range []map[string]float64{v.used, v.before} {
		if _, mine := asked[v.access.Principal]; len(asked) > 1 || len(asked) == 1 && !mine {
			most = v.most / 4
		}
	}
	if total+units > v.most || v.used[v.access.Principal]+units > most {
		return errBusy
	}
	v.used[v.access.Principal] += units
	return nil
}

// addUnits adds read units that were used already to the principal's of this minute, also beyond the bound.
func (v *visit) addUnits(units float64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.used[v.access.Principal] += units
}

// fetch returns the value of a key: a kept one younger than keep, or else the result of read, which takes units
// and is kept. While the table does not answer, or the units are used up, it returns an older value and sets
// v.stale. Without one it returns the error.
func fetch[T any](v *visit, key string, keep time.Duration, units float64, read func() (T, error)) (T, error) {
	all, err := fetchMany(v, []string{key}, keep, func([]int) ([]T, error) {
		one, err := read()
		return []T{one}, err
	}, units)
	if err != nil {
		var none T
		return none, err
	}
	return all[0], nil
}

// fetchMany returns the values of keys in their order, like fetch. The function read gets the indexes of the
// keys to read and returns their values in that order; each takes units. It returns older values for all
// missing keys, or the error.
func fetchMany[T any](v *visit, keys []string, keep time.Duration, read func(missing []int) ([]T, error), units float64) ([]T, error) {
	now := v.now()
	values, missing, old := lookUpKept[T](v.reads, keys, keep, now)
	if len(missing) == 0 {
		return values, nil
	}
	var found []T
	err := dynalimit.ErrUnavailable
	if v.stale.IsZero() || len(old) < len(missing) { // else a read of this visit failed already: each takes a second
		if err = v.takeUnits(units * float64(len(missing))); err == nil {
			found, err = read(missing)
		}
	}
	if (errors.Is(err, errBusy) || errors.Is(err, dynalimit.ErrUnavailable)) && len(old) == len(missing) {
		v.busy = v.busy || errors.Is(err, errBusy)
		for _, i := range missing {
			values[i] = old[i].value.(T) //nolint:forcetypeassert // checked above
			if v.stale.IsZero() || old[i].at.Before(v.stale) {
				v.stale = old[i].at
			}
		}
		return values, nil
	}
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.kept) > mostKept {
		maps.DeleteFunc(v.kept, func(_ string, k kept) bool { return now.Sub(k.at) > keepBuckets })
	}
	for n, i := range missing {
		values[i] = found[n]
		v.kept[keys[i]] = kept{found[n], now}
	}
	return values, nil
}

// lookUpKept returns the kept values of keys that are younger than keep, in the order of keys, and the indexes
// of the missing others. It also returns, by index, older values of those, to show while the table does not
// answer.
func lookUpKept[T any](r *reads, keys []string, keep time.Duration, now time.Time) (values []T, missing []int, old map[int]kept) {
	values, old = make([]T, len(keys)), map[int]kept{}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, key := range keys {
		k := r.kept[key]
		value, is := k.value.(T)
		age := now.Sub(k.at)
		if is && age < keep && age >= 0 {
			values[i] = value
			continue
		}
		missing = append(missing, i)
		if is && age < keepStale {
			old[i] = k
		}
	}
	return values, missing, old
}

// forgetEntity drops the kept values of an entity, after a change, so that the next page reads them again.
func forgetEntity(r *reads, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.kept, func(key string, _ kept) bool {
		return strings.HasSuffix(key, " "+id) || strings.Contains(key, " "+id+" ")
	})
}

// readBuckets returns the buckets of entities on a resource, by entity. Visitors share each for 2 s. It is
// empty after an error.
func (v *visit) readBuckets(ctx context.Context, resource string, ids []string) (map[string]admin.Bucket, error) {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = "bucket " + id + " " + resource
	}
	found, err := fetchMany(v, keys, keepBuckets, func(missing []int) ([]admin.Bucket, error) {
		asked := make([]admin.BucketID, len(missing))
		for n, i := range missing {
			asked[n] = admin.BucketID{EntityID: ids[i], Resource: resource}
		}
		return v.admin.Buckets.GetMany(ctx, asked)
	}, 0.5)
	return mapByID(ids, found), err
}

// readBlocks returns, by entity, whether its own default or its source on the resource blocks calls. Visitors
// share it for 3 minutes. It also records the names of limits of money.
func (v *visit) readBlocks(ctx context.Context, resource string, ids []string) (map[string]bool, error) {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = "block " + id + " " + resource
	}
	found, err := fetchMany(v, keys, keepLists, func(missing []int) ([]bool, error) {
		var scopes []admin.Scope
		for _, i := range missing {
			scopes = append(scopes, admin.Scope{Entity: ids[i]}, admin.Scope{Entity: ids[i], Resource: resource})
		}
		configs, err := v.admin.Limits.GetConfigsEventually(ctx, scopes)
		if err != nil {
			return nil, err
		}
		v.learnMoney(configs)
		blocked := make([]bool, len(missing))
		for n := range missing {
			blocked[n] = isBlocked(configs[2*n].Config) || isBlocked(configs[2*n+1].Config)
		}
		return blocked, nil
	}, 1)
	return mapByID(ids, found), err
}

// isBlocked reports whether a configuration blocks calls, with exceptions or without.
func isBlocked(c admin.LimitConfig) bool { return c.Blocked || c.BlockedExcept }

// readRecords returns the records of entities, by entity, by eventually consistent reads that visitors share
// for 3 minutes. It is empty after an error.
func (v *visit) readRecords(ctx context.Context, ids []string) (map[string]admin.Entity, error) {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = "record " + id
	}
	found, err := fetchMany(v, keys, keepLists, func(missing []int) ([]admin.Entity, error) {
		asked := make([]string, len(missing))
		for n, i := range missing {
			asked[n] = ids[i]
		}
		return v.admin.Entities.GetManyEventually(ctx, asked)
	}, 0.5)
	return mapByID(ids, found), err
}

// mapByID returns a new map from ids to values of the same order. It is empty for nil values, as after an
// error.
func mapByID[T any](ids []string, values []T) map[string]T {
	found := make(map[string]T, len(values))
	for i, value := range values {
		found[ids[i]] = value
	}
	return found
}

// learnMoney adds the names of the limits of money in configurations to r.money. Names are never removed.
func (r *reads) learnMoney(configs []admin.ScopedConfig) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range configs {
		for _, l := range c.Config.Limits {
			if l.Unit == dynalimit.USD {
				r.money[l.Name] = true
			}
		}
	}
}

// isMoney reports whether a limit of money with the name was in a configuration that was read.
func (r *reads) isMoney(limit string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.money[limit]
}

// closedTo returns the first hour without summed usage: usage before it is complete. It is zero without a
// reader of usage and before the first sum.
func (v *visit) closedTo(ctx context.Context) (time.Time, error) {
	if v.usage == nil {
		return time.Time{}, nil
	}
	return fetch(v, "closed", keepLists, 1, func() (time.Time, error) { return v.usage.Closed(ctx) })
}

// catalog is the configuration that all entities share.
type catalog struct {
	// Main is the resource or group of lists, and Models are its members; empty for a single resource.
	Main   string
	Models []string
	// Resources, Plans and System are the sources for everyone and of plans.
	Resources, Plans []admin.ScopedConfig
	System           admin.LimitConfig
}

// mostPlans and mostResources bound the shown plans and resources.
const mostPlans, mostResources = 50, 100

// readCatalog returns the shared configuration, which visitors share for keepLists: at most 100 resources and
// 50 plans. If main is "", it chooses the main resource. It records the names of limits of money.
func (v *visit) readCatalog(ctx context.Context, main string) (catalog, error) {
	return fetch(v, "catalog", keepLists, 10, func() (catalog, error) {
		c, err := v.readResources(ctx, main)
		if err != nil {
			return c, err
		}
		scopes := []admin.Scope(nil)
		for plan, err := range v.admin.Limits.Plans(ctx) {
			if err != nil {
				return c, err
			}
			scopes = append(scopes, admin.Scope{Plan: plan})
			if c.Main != "" {
				scopes = append(scopes, admin.Scope{Plan: plan, Resource: c.Main})
			}
			if len(scopes) >= 2*mostPlans {
				break
			}
		}
		if c.Plans, err = v.admin.Limits.GetConfigs(ctx, scopes); err != nil {
			return c, err
		}
		v.learnMoney([]admin.ScopedConfig{{Config: c.System}})
		v.learnMoney(c.Resources)
		v.learnMoney(c.Plans)
		return c, nil
	})
}

// readResources reads the sources of the system and of at most 100 resources into a new catalog. Without a main
// one it chooses the group with the most members, else the first resource. It sets the main group's members.
func (v *visit) readResources(ctx context.Context, main string) (catalog, error) {
	c := catalog{Main: main}
	scopes := []admin.Scope{{Everyone: true}}
	for resource, err := range v.admin.Limits.Resources(ctx) {
		if err != nil {
			return c, err
		}
		if scopes = append(scopes, admin.Scope{Everyone: true, Resource: resource}); len(scopes) > mostResources {
			break
		}
	}
	configs, err := v.admin.Limits.GetConfigs(ctx, scopes)
	if err != nil {
		return c, err
	}
	c.System, c.Resources = configs[0].Config, configs[1:]
	members := map[string][]string{}
	for _, r := range c.Resources {
		for _, group := range r.Config.Groups {
			members[group] = append(members[group], r.Scope.Resource)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(members)) {
		if main == "" && len(members[group]) > len(members[c.Main]) {
			c.Main = group
		}
	}
	if c.Main == "" && len(c.Resources) > 0 {
		c.Main = c.Resources[0].Scope.Resource
	}
	c.Models = members[c.Main]
	return c, nil
}

// sharedBlock returns the name of the blocked source of an entity of a plan besides its own sources: "the
// system", "the resource" or "its plan". It is "" if none is blocked.
func (c catalog) sharedBlock(plan string) string {
	if isBlocked(c.System) {
		return "the system"
	}
	for _, r := range c.Resources {
		if r.Scope.Resource == c.Main && isBlocked(r.Config) {
			return "the resource"
		}
	}
	for _, p := range c.Plans {
		if plan != "" && p.Scope.Plan == plan && isBlocked(p.Config) {
			return "its plan"
		}
	}
	return ""
}
