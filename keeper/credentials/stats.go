package credentials

// Stats counts a store's work since New, including the stores of its As.
type Stats struct {
	// Logins counts successful logins of clients, RefusedLogins the refused ones.
	Logins, RefusedLogins int64
	// Hashes counts computed HMACs: one under each pepper for every received secret.
	Hashes int64
	// Retrievals counts retrieved secrets.
	Retrievals int64
	// Revocations counts ended tokens, sessions, clients and provisioning keys.
	Revocations int64
	// RevocationHits counts checks for revocation that the cache answered, RevocationReads
	// those that read the store.
	RevocationHits, RevocationReads int64
}

// Stats returns the counts since New, shared with the stores of As. It sends no request, and returns zero
// counts if New did not make the store.
func (s *Store) Stats() Stats {
	if !s.isMade() {
		return Stats{}
	}
	cached := s.revoked.known.Stats()
	return Stats{
		Logins: s.core.counts.logins.Load(), RefusedLogins: s.core.counts.refused.Load(), Hashes: s.core.counts.hashes.Load(),
		Retrievals: s.core.counts.retrievals.Load(), Revocations: s.core.counts.revocations.Load(),
		RevocationHits: cached.Hits, RevocationReads: cached.Loads,
	}
}
