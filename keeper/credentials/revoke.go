package credentials

import (
	"context"

	"github.com/dynalimit/dynalimit/internal/trail"
)

// Revoke ends the credentials of an organisation or app: no secret of theirs works, and no
// token that they were used for, here at once and elsewhere within CacheTTL. A PUT does not
// bring them back; Rotate does. Credentials that are revoked stay so.
//
// Errors: *ValidationError, ErrNotFound for a client without credentials,
// *UnavailableError.
func (s *Store) Revoke(ctx context.Context, org, app string) error {
	return s.end(ctx, "Revoke", org, app, false)
}

// Delete does as Revoke, for an organisation or app that is deleted: Create then begins
// anew. One without credentials is left alone. With an organisation (app is empty) go all
// its apps, which reads the whole control table.
//
// Errors: *ValidationError, *UnavailableError.
func (s *Store) Delete(ctx context.Context, org, app string) error {
	if err := s.end(ctx, "Delete", org, app, true); err != nil || app != "" {
		return err
	}
	for page, err := range s.core.items.Lasting(ctx, s.core.items.Control, clientPrefix+ClientID(org, "")+clientApp) {
		if err != nil {
			return failure("Delete", err)
		}
		for _, item := range page {
			seen, err := decodeAccount(item) // others of that name have a time to live
			if err == nil && seen.exists() {
				err = s.end(ctx, "Delete", org, seen.app, true)
			}
			if err != nil {
				return failure("Delete", err)
			}
		}
	}
	return nil
}

func (s *Store) end(ctx context.Context, operation, org, app string, deleted bool) error {
	ctx, cancel, err := s.change(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	if err := validOwner(org, app); err != nil {
		return err
	}
	defer s.revoked.forget(func(r TokenRef) bool { return r.ClientID == ClientID(org, app) })
	for n := 0; ; n++ {
		seen, err := s.core.load(ctx, ClientID(org, app))
		if err == nil && !seen.exists() && !deleted {
			err = notFound("%s has no credentials", ClientID(org, app))
		}
		if over := !seen.exists() || !seen.revoked.IsZero() && !deleted; over || err != nil {
			return failure(operation, err)
		}
		now := seconds(s.core.now())
		next := seen.ended(now, deleted)
		action := actionRevoked
		if deleted {
			action = actionDeleted
		}
		mark := clientMark(next.id(), next.version, now.Add(s.core.opts.LongestToken))
		overtaken, err := s.replace(ctx, action, seen, next, trail.Fields{"client_id": next.id(), "version": next.version}, s.core.put(mark, "", nil, nil))
		if err == nil {
			s.core.counts.revocations.Add(1)
		}
		if !overtaken || n == changeTries {
			return failure(operation, err)
		}
	}
}
