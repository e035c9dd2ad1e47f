package laws

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
)

// operator causes the events around the workers: administration, time and bad luck.
type operator struct {
	h *history
	r *rand.Rand
}

// changeTable makes one random change of the table: it changes the configuration, expires items, or deletes an
// entity or a bucket. Before the expiry it pauses for up to 20 hours. The random number p, below 0.055,
// decides.
func (o *operator) changeTable(p float64) {
	switch {
	case p < .03:
		o.reconfigure()
	case p < .045:
		Elapse(time.Duration(o.r.Int64N(20*3600)) * time.Second)
		o.h.db.ExpireNow()
	default:
		o.eraseBuckets()
	}
}

// causeFault kills a limiter, throttles a bucket's partition, or silences the store for a while; p, a random
// number from 0.055 to 0.085, decides.
func (o *operator) causeFault(p float64) {
	switch {
	case p < .07:
		o.crashLimiter()
	case p < .08:
		o.h.weather.throttlePartition(o.r, o.h.entities[o.r.IntN(len(o.h.entities))])
	default:
		o.h.weather.silenceStore(o.r)
	}
}

// reconfigure makes one random change of limits, groups, teams, raises or parents, and publishes the
// configuration in force to the oracle. It holds h.mu; an error fails the test.
func (o *operator) reconfigure() {
	o.h.mu.Lock()
	defer o.h.mu.Unlock()
	ctx, limits := Quietly(o.h.t.Context()), o.h.randomLimits(o.r)
	entity := o.h.entities[o.r.IntN(len(o.h.entities))]
	if o.h.grouped && o.r.IntN(2) == 0 {
		o.h.changeGroup(ctx, o.r)
		o.h.publishConfig(ctx)
		return
	}
	if o.h.teams != nil && o.r.IntN(3) == 0 {
		o.changeTeams(ctx)
		o.h.publishConfig(ctx)
		return
	}
	if o.h.raises.IntN(4) == 0 {
		o.raiseLimit(ctx, entity)
		return
	}
	var err error
	switch o.r.IntN(9) {
	case 0:
		err = setSource(ctx, admin.New(o.h.operator).Limits, o.r, admin.Scope{Everyone: true, Resource: resource}, limits)
	case 1:
		err = setSource(ctx, admin.New(o.h.operator).Limits, o.r, admin.Scope{Entity: entity}, limits)
	case 2:
		err = setSource(ctx, admin.New(o.h.operator).Limits, o.r, admin.Scope{Entity: entity, Resource: resource}, limits)
	case 3:
		err = unsetSource(ctx, admin.New(o.h.operator).Limits, admin.Scope{Everyone: true, Resource: resource})
	case 4:
		err = admin.New(o.h.operator).Limits.Delete(ctx, admin.Scope{Entity: entity})
	case 5:
		err = admin.New(o.h.operator).Limits.Delete(ctx, admin.Scope{Entity: entity, Resource: resource})
	case 6:
		err = o.changeParent(ctx, o.r.IntN(len(o.h.entities)))
	default:
		err = admin.New(o.h.operator).Limits.Set(ctx, admin.Scope{Everyone: true}, limits)
	}
	require.NoError(o.h.t, err)
	o.h.publishConfig(ctx)
}

// setSource replaces the list of limits of a source and keeps the rest of it, even if limits of other sources
// get hidden. One in three times it sets only some of the limits, which then extend the less specific sources.
func setSource(ctx context.Context, of admin.Limits, r *rand.Rand, at admin.Scope, limits []dynalimit.Limit) error {
	c, err := of.GetConfig(ctx, at)
	if err != nil {
		return err
	}
	c.Limits, c.Extends, c.Only = limits, false, true
	if r.IntN(3) == 0 {
		c.Limits, c.Extends = limits[:1+r.IntN(len(limits))], true
	}
	_, err = of.SetConfig(ctx, at, c)
	return err
}

// unsetSource deletes the configuration of a source. If the source has the mark Admit, it keeps only that.
func unsetSource(ctx context.Context, of admin.Limits, at admin.Scope) error {
	c, err := of.GetConfig(ctx, at)
	if err != nil || !c.Admit {
		return cmp.Or(err, of.Delete(ctx, at))
	}
	_, err = of.SetConfig(ctx, at, admin.LimitConfig{Admit: true, Version: c.Version, Only: true})
	return err
}

// raiseLimit raises one limit of an entity at a random source, counts it, and publishes the configuration now
// and when the raise ends. It ignores a refused raise; another error fails the test. h.mu must be held.
func (o *operator) raiseLimit(ctx context.Context, entity string) {
	r, inForce := o.h.raises, o.h.config[bucketOf(entity, resource)]
	if len(inForce) == 0 {
		return
	}
	limit := inForce[r.IntN(len(inForce))]
	at := []admin.Scope{{Everyone: true}, {Everyone: true, Resource: resource}, {Entity: entity}, {Entity: entity, Resource: resource}}[r.IntN(4)]
	until := time.Now().Truncate(time.Second).Add(time.Duration(2+r.IntN(150)) * time.Second)
	err := admin.New(o.h.operator).Limits.ReplaceRaise(ctx, at, limit.Name, limit.Capacity*int64(2+r.IntN(3)), until)
	if _, cannot := errors.AsType[*dynalimit.ValidationError](err); cannot {
		return
	}
	require.NoError(o.h.t, err)
	o.h.publishConfig(ctx)
	o.h.raised++
	time.AfterFunc(time.Until(until), func() {
		o.h.mu.Lock()
		defer o.h.mu.Unlock()
		if !o.h.over {
			o.h.publishConfig(ctx)
		}
	})
}

// changeQuota replaces, for everybody, the limit that may be a quota, and publishes the configuration, with
// h.mu held. Half of the time it then waits until all limiters have read the change. An error fails the test.
func (o *operator) changeQuota() {
	o.h.mu.Lock()
	ctx, limits := Quietly(o.h.t.Context()), admin.New(o.h.operator).Limits
	name := o.h.quotas.name
	c, err := limits.GetConfig(ctx, admin.Scope{Everyone: true})
	require.NoError(o.h.t, err)
	others := slices.DeleteFunc(c.Limits, func(l dynalimit.Limit) bool { return l.Name == name })
	require.NoError(o.h.t, limits.Set(ctx, admin.Scope{Everyone: true}, append(others, o.h.randomLimit(o.r, name))))
	o.h.publishConfig(ctx)
	o.h.mu.Unlock()
	if o.r.IntN(2) == 0 {
		Elapse(configTTL)
	}
}

// changeParent stores a new random record of the i-th entity: another parent, none, or another way of counting
// it. It creates the record if it was deleted, and returns the error.
func (o *operator) changeParent(ctx context.Context, i int) error {
	entities := admin.New(o.h.operator).Entities
	now, err := entities.Get(ctx, o.h.entities[i])
	next := Link(o.h.entities, i, o.h.links)
	if errors.Is(err, admin.ErrNotFound) { // changeTeams took it away
		return entities.Create(ctx, next)
	}
	if err != nil {
		return err
	}
	if next.Version, next.CreatedAt = now.Version, now.CreatedAt; now.ParentID != "" && o.h.links.IntN(2) == 0 {
		next.ParentID, next.Cascade, next.Detached = "", false, false
	}
	next.Only = true
	_, err = entities.Update(ctx, next)
	return err
}

// crashLimiter marks a random limiter as dead in the middle of its work, so that its requests fail, and drops
// its leases. It starts another in its place, and keeps the dead one in h.retired.
func (o *operator) crashLimiter() {
	o.h.mu.Lock()
	defer o.h.mu.Unlock()
	i := o.r.IntN(len(o.h.members))
	m := o.h.members[i]
	m.dead.Store(true)
	o.h.lanesOf(m).End() // none of its work goes on
	go m.limiter.Close(o.h.ctx)
	o.h.retired = append(o.h.retired, m)
	o.h.leases = slices.DeleteFunc(o.h.leases, func(l *grant) bool { return l.owner == m })
	o.h.members[i] = o.h.newMember()
}

// eraseBuckets deletes one random bucket, or the leaf with its limits and buckets, which it creates again
// before it publishes the configuration. Debts and open leases do not matter. An error fails the test.
func (o *operator) eraseBuckets() {
	o.h.mu.Lock()
	defer o.h.mu.Unlock()
	ctx, i := Quietly(o.h.t.Context()), o.r.IntN(len(o.h.entities))
	if i > 0 || o.r.IntN(2) == 0 {
		_, err := o.h.db.Client().DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: new(table), Key: o.h.lanesOf(o.h.members[0]).Keys.Bucket(o.h.entities[i], o.h.eitherBucket(o.r)).Attributes(),
		})
		require.NoError(o.h.t, err)
		return
	}
	require.NoError(o.h.t, admin.New(o.h.operator).Entities.Delete(ctx, o.h.entities[0]))
	require.NoError(o.h.t, admin.New(o.h.operator).Entities.Create(ctx, Link(o.h.entities, 0, o.h.links)))
	o.h.publishConfig(ctx)
}
