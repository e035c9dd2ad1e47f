package main

import "github.com/dynalimit/dynalimit/internal/notation"

// dollars is an amount in flags and output, in micro-dollars.
type dollars int64

// UnmarshalText parses dollars with up to six decimals, such as 12.50 or $0.0165, and stores them as
// micro-dollars. A malformed text is an error.
func (d *dollars) UnmarshalText(text []byte) error {
	n, err := notation.ParseDollars(string(text))
	*d = dollars(n)
	return err
}

// String formats micro-dollars with at least two decimals, up to six where they are not zero, and separators of
// thousands: $8,252.508.
func (d dollars) String() string { return notation.GroupedDollars(int64(d)) }

// inMicros copies amounts by label into a map of plain micro-dollars; dollars holds them already. It returns
// nil for an empty map.
func inMicros(amounts map[string]dollars) map[string]int64 {
	if len(amounts) == 0 {
		return nil
	}
	out := make(map[string]int64, len(amounts))
	for label, d := range amounts {
		out[label] = int64(d)
	}
	return out
}
