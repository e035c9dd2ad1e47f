package dynalimit

// What histories play that does not hold yet. Each goes when it does.
const (
	// playWaits lets calls wait.
	playWaits = false
	// playWaitsBesideTransactions lets calls wait in histories with transactions.
	playWaitsBesideTransactions = false
	// playHonestWaits judges waits that give up.
	playHonestWaits = false
)
