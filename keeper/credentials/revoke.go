package credentials

import (
	"context"

	"github.com/dynalimit/dynalimit/internal/trail"
)

// Revoke ends the credentials of an organisation or app: its secrets, and the tokens issued for them, here at once and
// elsewhere within CacheTTL. It stores an audit event; only Rotate restores them, and a repetition changes nothing.
//
// Errors: *ValidationError, ErrNotFound for a client without credentials, *UnavailableError.
func (s *Store) Revoke(ctx context.Context, org, app string) error {
	return s.endCredentials(ctx, "Revoke", org, app, false)
}

// Delete is Revoke for a deleted organisation or app: Create then begins anew. It ignores a
// client without credentials. For an organisation (app is empty) it deletes the credentials of
// all apps too, and scans the control table for them.
//
// Errors: *ValidationError, *UnavailableError.
func (s *Store) Delete(ctx context.Context, org, app string) error {
	if err := s.endCredentials(ctx, "Delete", org, app, true); err != nil || app != "" {
		return err
	}
	for page, err := range s.core.items.ScanWithoutTTL(ctx, s.core.items.Control, clientPrefix+ClientID(org, "")+clientApp) {
		if err != nil {
			return storeFailure("Delete", err)
		}
		for _, item := range page {
			seen, err := decodeAccount(item) // other items with such a name have a time to live
			if err == nil && seen.hasCredentials() {
				err = s.endCredentials(ctx, "Delete", org, seen.app, true)
			}
			if err != nil {
				return storeFailure("Delete", err)
			}
		}
	}
	return nil
}

// endCredentials removes a client's secrets, revokes its tokens and stores an event, in one transaction, and
// drops its cached tokens. With deleted it also marks the client as deleted, and ignores a missing one; else
// that is ErrNotFound. Revoked credentials change only with deleted.
func (s *Store) endCredentials(ctx context.Context, operation, org, app string, deleted bool) error {
	ctx, cancel, err := s.beginChange(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	if err := validOwner(org, app); err != nil {
		return err
	}
	defer s.revoked.evictTokens(func(r TokenRef) bool { return r.ClientID == ClientID(org, app) })
	for n := 0; ; n++ {
		seen, err := s.core.loadAccount(ctx, ClientID(org, app))
		if err == nil && !seen.hasCredentials() && !deleted {
			err = notFoundError("%s has no credentials", ClientID(org, app))
		}
		if over := !seen.hasCredentials() || !seen.revoked.IsZero() && !deleted; over || err != nil {
			return storeFailure(operation, err)
		}
		now := truncateSeconds(s.core.now())
		next := seen.withoutSecrets(now, deleted)
		action := actionRevoked
		if deleted {
			action = actionDeleted
		}
		mark := clientMark(next.clientID(), next.version, now.Add(s.core.opts.LongestToken))
		overtaken, err := s.replaceAccount(ctx, action, seen, next, trail.Fields{"client_id": next.clientID(), "version": next.version}, s.core.newPutWrite(mark, "", nil, nil))
		if err == nil {
			s.core.counts.revocations.Add(1)
		}
		if !overtaken || n == changeTries {
			return storeFailure(operation, err)
		}
	}
}
