package main

import (
	"fmt"
	"strconv"
	"strings"
)

// dollars is an amount on the command line and the screen, in micro-dollars.
type dollars int64

// UnmarshalText reads dollars with up to six decimals, such as 12.50 or $0.0165.
func (d *dollars) UnmarshalText(text []byte) error {
	bad := fmt.Errorf("%q is not an amount of dollars: write it like 12.50, with up to six decimals", text)
	whole, decimals, point := strings.Cut(strings.TrimPrefix(string(text), "$"), ".")
	if len(decimals) > 6 || point && decimals == "" {
		return bad
	}
	digits := whole + decimals + strings.Repeat("0", 6-len(decimals))
	if whole == "" || strings.ContainsAny(digits, "+-_") {
		return bad
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return bad
	}
	*d = dollars(n)
	return nil
}

// String shows cents, and more where there is more.
func (d dollars) String() string {
	sign, n := "", int64(d)
	if n < 0 {
		sign, n = "-", -n
	}
	decimals := fmt.Sprintf("%06d", n%1_000_000)
	for len(decimals) > 2 && strings.HasSuffix(decimals, "0") {
		decimals = decimals[:len(decimals)-1]
	}
	return fmt.Sprintf("%s$%d.%s", sign, n/1_000_000, decimals)
}

// micros turns amounts of the command line into a keeper's.
func micros(amounts map[string]dollars) map[string]int64 {
	if len(amounts) == 0 {
		return nil
	}
	out := make(map[string]int64, len(amounts))
	for label, d := range amounts {
		out[label] = int64(d)
	}
	return out
}
