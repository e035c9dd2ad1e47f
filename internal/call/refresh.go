package call

import "github.com/dynalimit/dynalimit/internal/config"

// A key that is called rarely finds its configuration past the TTL at every call. Its take is then sent on the
// expired configuration while that is read again, and the caller waits for both. If the configuration has
// changed, the tokens are given back and the call starts again. So the call is decided under the configuration
// in force, as if it had read first.

// refresh is a read of an expired configuration beside the write of a take.
type refresh struct {
	old  *config.Resolved
	done chan struct{}
	// found and err are the result, once done is closed.
	found config.Found
	err   error
}

// refreshes are the reads of the expired configurations of a call.
type refreshes []*refresh

// haveChanges waits for all the reads, and reports whether a configuration has changed or could not be read. It
// is false without reads.
func (all refreshes) haveChanges() bool {
	changed := false
	for _, f := range all {
		<-f.done
		changed = changed || f.err != nil || !f.old.HasSameContent(f.found.Resolved)
	}
	return changed
}
