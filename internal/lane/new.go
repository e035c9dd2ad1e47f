package lane

// New returns a registry without lanes. It does no I/O and starts no goroutine. It fails for a Size below 1.
func New(o Options) (*Registry, error) {
	return newRegistry(o, func(s *Registry) teller { return telling{s, &s.told} })
}
