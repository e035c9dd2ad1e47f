package manifest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
)

const (
	// mostTokens and longestPeriod are what the library takes.
	mostTokens    = 1_000_000_000_000
	longestPeriod = 366 * 24 * time.Hour
)

const amountHelp = "write a whole number of 1 to 10^12, such as 600, 10_000, 10k, 2M or 1e6"

var amountText = regexp.MustCompile(`^([0-9]+(?:_[0-9]+)*)(?:(k)|(M)|e([0-9]{1,2}))?$`)

// parseAmount reads a whole number: 600, 10_000, 10k (thousands), 2M (millions), 1e6. A
// number that starts with 0 would be octal to some readers of YAML and is refused.
func parseAmount(text string) (n int64, reason string) {
	m := amountText.FindStringSubmatch(text)
	if m == nil || len(m[1]) > 1 && m[1][0] == '0' {
		return 0, fmt.Sprintf("is %q: %s", text, amountHelp)
	}
	zeros := 3*btoi(m[2] != "") + 6*btoi(m[3] != "")
	if m[4] != "" {
		zeros, _ = strconv.Atoi(m[4])
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(m[1], "_", ""), 10, 64)
	for ; err == nil && zeros > 0 && n <= mostTokens; zeros-- {
		n *= 10
	}
	if err != nil || n < 1 || n > mostTokens {
		return 0, fmt.Sprintf("is %s: %s", text, amountHelp)
	}
	return n, ""
}

const periodHelp = "write whole seconds up to 366 days, such as 1s, 90s, 1m, 1h30m or 1d"

var periodText = regexp.MustCompile(`^(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?$`)

// parsePeriod reads a time: 1s, 90s, 1m, 1h30m, 1d. A bare number has no unit.
func parsePeriod(text string) (d time.Duration, reason string) {
	m := periodText.FindStringSubmatch(text)
	if m == nil || text == "" {
		if _, err := strconv.ParseInt(text, 10, 64); err == nil {
			return 0, fmt.Sprintf("is %s, without a unit: write %ss for seconds, or 1m, 1h, 1d", text, text)
		}
		return 0, fmt.Sprintf("is %q: %s", text, periodHelp)
	}
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		n, _ := strconv.ParseInt("0"+m[i+1], 10, 64)
		if n > int64(longestPeriod/unit) {
			return 0, fmt.Sprintf("is %s: %s", text, periodHelp)
		}
		d += time.Duration(n) * unit
	}
	if d < time.Second || d > longestPeriod {
		return 0, fmt.Sprintf("is %s: %s", text, periodHelp)
	}
	return d, ""
}

// parseSeconds reads whole seconds, as zae-limiter's refill_period has them.
func parseSeconds(text string) (d time.Duration, reason string) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > int64(longestPeriod/time.Second) {
		return 0, fmt.Sprintf("is %q: write whole seconds, such as 60, or 'period: 1m' instead", text)
	}
	return time.Duration(n) * time.Second, ""
}

// amountOf writes a number so that its size is seen: 600, 10_000, 2_500_000.
func amountOf(n int64) string {
	if n < 10_000 {
		return strconv.FormatInt(n, 10)
	}
	return strings.ReplaceAll(notation.Number(n), ",", "_")
}
