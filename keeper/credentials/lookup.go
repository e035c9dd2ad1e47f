package credentials

import "context"

// Lookup returns a client's current state, read without a cache. The renewal of a token uses it
// to check that the client still has credentials, and of which version.
//
// Errors: ErrNotFound for a client without credentials or with revoked ones; *UnavailableError.
func (s *Store) Lookup(ctx context.Context, clientID string) (Identity, error) {
	ctx, cancel, err := s.beginCall(ctx)
	if err != nil {
		return Identity{}, err
	}
	defer cancel()
	org, app, ok := ParseClientID(clientID)
	if !ok {
		return Identity{}, notFoundError("there is no such client")
	}
	seen, err := s.core.loadExisting(ctx, org, app)
	if err != nil {
		return Identity{}, storeFailure("Lookup", err)
	}
	if !seen.revoked.IsZero() {
		return Identity{}, notFoundError("the credentials of %s were revoked", clientID)
	}
	return seen.identity(), nil
}

// Status returns the public state of a client's credentials, also of revoked ones, by one read without a cache.
//
// Errors: *ValidationError, ErrNotFound for a client without credentials, *UnavailableError.
func (s *Store) Status(ctx context.Context, org, app string) (Status, error) {
	ctx, cancel, err := s.beginCall(ctx)
	if err != nil {
		return Status{}, err
	}
	defer cancel()
	if err := validOwner(org, app); err != nil {
		return Status{}, err
	}
	seen, err := s.core.loadExisting(ctx, org, app)
	if err != nil {
		return Status{}, storeFailure("Status", err)
	}
	return seen.publicStatus(s.core.now()), nil
}
