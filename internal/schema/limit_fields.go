package schema

// limitPrefix begins the attributes of configuration that are of token buckets.
const limitPrefix = "l_"

// The fields of a stored limit: l_{name}_{field}.
const (
	fieldCapacity = "cp"
	fieldBurst    = "bx"
	fieldAmount   = "ra"
	fieldPeriod   = "rp"
)
