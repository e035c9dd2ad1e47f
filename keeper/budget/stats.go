package budget

// Stats are what a keeper did since it was made, with those of its As, and how near quotas
// are.
type Stats struct {
	// ConfigHits is how often the configuration of an app was known, ConfigMisses how
	// often a call waited for a read of it.
	ConfigHits, ConfigMisses int64
	// TotalHits is how often what a scope had spent was known, TotalMisses how often a call
	// waited for a query of it.
	TotalHits, TotalMisses int64
	// QuotaPercent says by label how much of its quota is spent, in percent with one
	// decimal: the highest over the apps that this process serves and for which it queried the store in the
	// last ten minutes; sweeps add none. A label without quotas has none.
	QuotaPercent map[string]float64
}
