package credentials

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/budget/internal/store"
)

// PepperUse is who has a secret that is hashed under a pepper.
type PepperUse struct {
	// Clients are the ids of clients, in order. Each is hashed anew when it logs in, or is
	// given another secret.
	Clients []string
	// Keys are the names of provisioning keys, in order. Each stays as it is until it is
	// revoked.
	Keys []string
}

// PepperUse says which secrets that may log in are hashed under which peppers, by the ids
// of those. It reads the whole control table. A secret whose grace is over counts for none.
//
// Errors: *UnavailableError.
func (s *Store) PepperUse(ctx context.Context) (map[string]PepperUse, error) {
	_, cancel, err := s.begin(ctx) // the whole table may take longer than its bound
	if err != nil {
		return nil, err
	}
	cancel()
	found, now := map[string]PepperUse{}, s.now()
	for page, err := range s.items.Lasting(ctx, s.items.Control, clientPrefix) {
		if err == nil {
			err = addPepperUse(page, now, found)
		}
		if err != nil {
			return nil, failure("PepperUse", err)
		}
	}
	ring, err := s.ring.read(ctx)
	if err != nil {
		return nil, failure("PepperUse", err)
	}
	for _, key := range ring.all {
		if pepper, _, ok := parseHash(key.hash); ok {
			use := found[pepper]
			use.Keys = append(use.Keys, key.Name)
			found[pepper] = use
		}
	}
	return found, nil
}

// addPepperUse adds the peppers of the clients among some items.
func addPepperUse(items []store.Item, now time.Time, to map[string]PepperUse) error {
	for _, item := range items {
		if !strings.HasPrefix(store.KeyOf(item).PK, clientPrefix) {
			continue
		}
		a, err := decodeAccount(item)
		if err != nil {
			return err
		}
		a.pepperUse(now, to)
	}
	return nil
}

// pepperUse adds the peppers of an account.
func (a account) pepperUse(now time.Time, to map[string]PepperUse) {
	for _, hash := range a.hashes(now) {
		pepper, _, ok := parseHash(hash)
		use := to[pepper]
		if !ok || slices.Contains(use.Clients, a.id()) {
			continue
		}
		use.Clients = append(use.Clients, a.id())
		slices.Sort(use.Clients)
		to[pepper] = use
	}
}
