package budget

// Stats counts a keeper's cache lookups since New, including those of its As, and reports how
// near quotas are.
type Stats struct {
	// ConfigHits counts calls that found an app's configuration in the cache, ConfigMisses
	// calls that waited for a read.
	ConfigHits, ConfigMisses int64
	// TotalHits counts calls that found a scope's spend in the cache, TotalMisses calls that
	// waited for a query.
	TotalHits, TotalMisses int64
	// QuotaPercent is the used percentage of each label's quota, with one decimal: the highest
	// over the apps that this process served and whose spend it queried in the last ten
	// minutes. Sweeps add none. A label without quotas is absent.
	QuotaPercent map[string]float64
}
