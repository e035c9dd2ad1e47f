package credentials

// Stats count what a store did since it was made, with the stores of its As.
type Stats struct {
	// Logins is how many logins of clients were good, RefusedLogins how many were not.
	Logins, RefusedLogins int64
	// Hashes is how many HMACs were computed: for each secret that is looked at one under
	// each pepper, whoever it is of.
	Hashes int64
	// Retrievals is how many secrets were handed out.
	Retrievals int64
	// Revocations is how many tokens, sessions, clients and provisioning keys were ended.
	Revocations int64
	// RevocationHits is how often a token was known not to be revoked, or to be, without a
	// read; RevocationReads how often that was read.
	RevocationHits, RevocationReads int64
}

// Stats returns what the store did so far. It makes no request.
func (s *Store) Stats() Stats {
	if !s.made() {
		return Stats{}
	}
	cached := s.revoked.known.Stats()
	return Stats{
		Logins: s.core.counts.logins.Load(), RefusedLogins: s.core.counts.refused.Load(), Hashes: s.core.counts.hashes.Load(),
		Retrievals: s.core.counts.retrievals.Load(), Revocations: s.core.counts.revocations.Load(),
		RevocationHits: cached.Hits, RevocationReads: cached.Loads,
	}
}
