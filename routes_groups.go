package dynalimit

import (
	"context"
	"sync"
)

// resolveGroups is resolve for the groups that a call charges beside own. Those that are not
// known are read side by side, and the parent with them, which is resolved next.
func (rs *routes) resolveGroups(ctx context.Context, r *request, own *resolvedConfig, entity string, p *patience) ([]route, error) {
	groups := r.others(own.groups)
	if len(groups) == 0 { // the usual case
		return nil, nil
	}
	found, errs := make([]route, len(groups)), make([]error, len(groups))
	unread := make([]func(), 0, len(groups)+1)
	for i, group := range groups {
		key := configKey{entity, group, true}
		resolve := func() { found[i], errs[i] = rs.resolve(ctx, key, p) }
		if rs.repo.known(key) == nil {
			unread = append(unread, resolve)
		} else {
			resolve()
		}
	}
	if parent := r.keyOf(own.charged()); len(unread) > 0 && parent.entity != "" && rs.repo.known(parent) == nil {
		unread = append(unread, func() { _, _ = rs.resolve(ctx, parent, p) })
	}
	if len(unread) > 0 && p != nil {
		p.begin(ctx) // before they share it
	}
	var reads sync.WaitGroup
	for _, read := range unread {
		reads.Go(read)
	}
	reads.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}
