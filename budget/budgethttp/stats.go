package budgethttp

// Stats count what a server did since it was made.
type Stats struct {
	// TokenHits is how many access tokens were known to be genuine, TokenChecks how many
	// tokens' signatures had to be looked at. Whether a token has expired, was revoked, or
	// lost its key is judged for each request.
	TokenHits, TokenChecks int64
}

// Stats returns what the server did so far; nothing with Options.Authenticate.
func (s *Server) Stats() Stats {
	if s == nil || s.login == nil {
		return Stats{}
	}
	hits, checks := s.login.Stats()
	return Stats{TokenHits: hits, TokenChecks: checks}
}
