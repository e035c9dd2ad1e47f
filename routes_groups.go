package dynalimit

import (
	"context"
	"sync"
)

// resolveGroups resolves the other groups of a call's resource. It reads unknown groups at the same
// time, and with them the parent, which is resolved next.
func (rs *routes) resolveGroups(ctx context.Context, r *request, own route, p *patience) ([]route, error) {
	groups := own.beside(own.resolved)
	found, errs := make([]route, len(groups)), make([]error, len(groups))
	unread := make([]func(*patience), 0, len(groups)+1)
	for i, group := range groups {
		if rs.configs.Fresh(group.GivenKey) == nil {
			unread = append(unread, func(p *patience) { found[i], errs[i] = rs.resolve(ctx, group, p) })
		} else {
			found[i], errs[i] = rs.resolve(ctx, group, p)
		}
	}
	if parent := r.nextPlace(own.place, own.resolved); len(unread) > 0 && parent.Entity != "" && rs.configs.Fresh(parent.GivenKey) == nil {
		unread = append(unread, func(p *patience) { _, _ = rs.resolve(ctx, parent, p) })
	}
	sideBySide(ctx, unread, p)
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// sideBySide makes reads at the same time, with the patience of one call.
func sideBySide(ctx context.Context, reads []func(*patience), p *patience) {
	if len(reads) == 0 {
		return
	}
	var shared *patience // a copy, that of a call without groups stays on its stack
	if p != nil {
		p.begin(ctx)
		begun := *p
		shared = &begun
	}
	var all sync.WaitGroup
	for _, read := range reads {
		all.Go(func() { read(shared) })
	}
	all.Wait()
}
