package notation

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/dynalimit/dynalimit"
)

// none is the word for no reserve.
const none = "none"

// mostPercent is the largest reserve in percent of the burst.
const mostPercent = 50

// ParseReserve parses the reserve of a limit for its field Reserve: tokens or, of money, micro-dollars. The
// text is a number, dollars, a part of the burst such as 20%, rounded down, or none. It returns -1 for none and
// 0.
func ParseReserve(l dynalimit.Limit, text string) (int64, error) {
	n, unit, err := parseCounted(text)
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		part, wrong := strconv.ParseUint(percent, 10, 7)
		if wrong != nil || part > mostPercent || len(percent) > 1 && percent[0] == '0' {
			return 0, fmt.Errorf("the reserve %q is no part of the burst: write 0%% to %d%%", text, mostPercent)
		}
		of := cmp.Or(l.Burst, l.Capacity)
		n, unit, err = of/100*int64(part)+of%100*int64(part)/100, l.Unit, nil
	}
	switch {
	case text == none || err == nil && n == 0:
		return -1, nil
	case err != nil || n < 0:
		return 0, fmt.Errorf("the reserve %q is no number: write it like 2000, 20%% of the burst, or %s", text, none)
	case unit != "" && l.Unit == "":
		return 0, fmt.Errorf("%q is money, and %s is not: write a number, or a part such as 20%%", text, l.Name)
	}
	return n, nil
}

// ReserveText formats the reserve of a limit as ParseReserve reads it; "" for the default of a fifth.
func ReserveText(l dynalimit.Limit) string {
	switch {
	case l.Reserve < 0:
		return none
	case l.Reserve == 0:
		return ""
	case l.Unit == dynalimit.USD:
		return RoundDollars(l.Reserve)
	}
	return strconv.FormatInt(l.Reserve, 10)
}

// describeReserve describes a reserve in words after ", "; "" for the default.
func describeReserve(l dynalimit.Limit) string {
	switch {
	case l.Reserve < 0:
		return ", no reserve"
	case l.Reserve > 0:
		return ", reserve " + roundInUnit(l.Unit, l.Reserve)
	}
	return ""
}

// parseReserved parses a limit from a text that may have a part reserve=. parse parses the text without that part. An
// empty reserve is an error.
func parseReserved(text string, parse func(text string) (dynalimit.Limit, error)) (dynalimit.Limit, error) {
	parts := strings.Split(text, ",")
	kept, reserve := parts[:1], ""
	for _, part := range parts[1:] {
		if value, ok := strings.CutPrefix(part, "reserve="); ok {
			reserve = cmp.Or(value, "nothing") // which is no reserve
			continue
		}
		kept = append(kept, part)
	}
	l, err := parse(strings.Join(kept, ","))
	if err != nil || reserve == "" {
		return l, err
	}
	n, err := ParseReserve(l, reserve)
	if err != nil {
		return dynalimit.Limit{}, fmt.Errorf("%s: %w", l.Name, err)
	}
	return l.WithReserve(n), nil
}
