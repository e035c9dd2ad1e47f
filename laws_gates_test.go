package dynalimit

// What histories play that does not hold yet. Each goes when it does.
const (
	// playWaits lets calls wait.
	playWaits = false
	// playWaitsBesideTransactions lets calls wait in histories with transactions.
	playWaitsBesideTransactions = false
	// playConcurrentEnds lets several goroutines end one lease at once.
	playConcurrentEnds = false
	// playHonestWaits judges waits that give up.
	playHonestWaits = false
	// playLedgerUnderFaults asks that no more is held than was debited, whatever
	// went unanswered.
	playLedgerUnderFaults = false
	// playIncarnations asks that nothing is given back to a bucket that was made
	// after the one that was charged.
	playIncarnations = false
)
