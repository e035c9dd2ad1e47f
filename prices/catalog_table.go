package prices

import (
	_ "embed"
	"strconv"
	"strings"
)

// catalogTable has the prices of LiteLLM's list for the models that the transport's dialects can call.
// Its first line names the list's version and day. A line has the ids of models with the same
// prices, then the prices: rates of the standard tier as input/output/cache read/write for 5
// minutes/write for an hour/sound, rates of other kinds as tier>length:rates, and tool=micros.
//
// `go run ./prices/internal/catalogtable` writes it.
//
//go:embed catalog_table.txt
var catalogTable string

// catalogTableDay is the day on which the table was read.
const catalogTableDay = "2026-11-28"

// tableCalls parses the embedded table and returns its prices by exact model id, in a new map. It panics if the
// table is malformed.
func tableCalls() map[string]CallPrice {
	calls := map[string]CallPrice{}
	for line := range strings.Lines(catalogTable) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		first := 0
		for !strings.Contains(fields[first], "/") { // no id has one
			first++
		}
		for _, model := range fields[:first] {
			calls[model] = tablePrice(fields[first:])
		}
	}
	return calls
}

// tablePrice returns the price in the fields of a table's line: the standard rates, then rates of tiers and
// long contexts, and fees of tools. Rates are in micro-dollars a million tokens, fees in micro-dollars. It
// panics for a malformed number.
func tablePrice(fields []string) (p CallPrice) {
	p.Rates, p.Sound = tableRates(fields[0])
	for _, field := range fields[1:] {
		if tool, micros, ok := strings.Cut(field, "="); ok {
			p.raiseToolPrice(tool, tableNumber(micros))
			continue
		}
		kind, rates, _ := strings.Cut(field, ":")
		tier, above, _ := strings.Cut(kind, ">")
		v := CallRates{Tier: tier, Above: tableNumber(above)}
		v.Rates, v.Sound = tableRates(rates)
		p.Variants = append(p.Variants, v)
	}
	return p
}

// tableRates returns the rates and the rate of sound in a text such as "3000000/15000000/300000", in
// micro-dollars a million tokens. Rates missing at its end are 0. It panics for a malformed number.
func tableRates(text string) (r Rates, sound int64) {
	to := []*int64{&r.Input, &r.Output, &r.CacheRead, &r.CacheWrite5m, &r.CacheWrite1h, &sound}
	for i, number := range strings.Split(text, "/") {
		*to[i] = tableNumber(number)
	}
	return r, sound
}

// tableNumber parses a number of the table, "" as 0. It panics for any other text.
func tableNumber(digits string) int64 {
	if digits == "" {
		return 0
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		panic("prices: catalog_table.txt: " + err.Error())
	}
	return n
}
