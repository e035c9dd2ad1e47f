package credentials

import "context"

// Lookup is a client as it is now, read without a cache: whoever renews a token asks
// whether its client still has credentials, and of which version.
//
// Errors: ErrNotFound for a client that has no credentials, or whose credentials were
// revoked; *UnavailableError.
func (s *Store) Lookup(ctx context.Context, clientID string) (Identity, error) {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return Identity{}, err
	}
	defer cancel()
	org, app, ok := ParseClientID(clientID)
	if !ok {
		return Identity{}, notFound("there is no such client")
	}
	seen, err := s.core.existing(ctx, org, app)
	if err != nil {
		return Identity{}, failure("Lookup", err)
	}
	if !seen.revoked.IsZero() {
		return Identity{}, notFound("the credentials of %s were revoked", clientID)
	}
	return seen.identity(), nil
}

// Status is what may be seen of a client's credentials.
//
// Errors: *ValidationError, ErrNotFound, *UnavailableError.
func (s *Store) Status(ctx context.Context, org, app string) (Status, error) {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return Status{}, err
	}
	defer cancel()
	if err := validOwner(org, app); err != nil {
		return Status{}, err
	}
	seen, err := s.core.existing(ctx, org, app)
	if err != nil {
		return Status{}, failure("Status", err)
	}
	return seen.status(s.core.now()), nil
}
