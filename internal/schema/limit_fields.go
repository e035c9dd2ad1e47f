package schema

// limitPrefix is the prefix of configuration attributes of token buckets.
const limitPrefix = "l_"

// The fields of a stored limit: l_{name}_{field}.
const (
	fieldCapacity = "cp"
	fieldBurst    = "bx"
	fieldAmount   = "ra"
	fieldPeriod   = "rp"
)
