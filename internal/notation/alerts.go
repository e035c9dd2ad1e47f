package notation

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dynalimit/dynalimit"
)

// parseAlerts sets l.AlertAt from a text such as 50+80+100. It fails for a limit that is not a quota, and for a
// text that is not whole numbers.
func parseAlerts(l *dynalimit.Limit, part, value string) error {
	if !l.IsQuota() {
		return fmt.Errorf("%q is of quotas alone: leave it out, or write a window, such as %s=%d/daily,%s", part, l.Name, l.Capacity, part)
	}
	var percent []int
	for text := range strings.SplitSeq(value, "+") {
		p, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is no list of percentages: write it like alert-at=50+80+100", part)
		}
		percent = append(percent, p)
	}
	*l = l.WithAlerts(percent...)
	return nil
}

// PercentsText formats percentages for people: 50 %, 80 % and 100 %; "" for none.
func PercentsText(set dynalimit.Percentages) (text string) {
	percent := set.List()
	for i, p := range percent {
		switch {
		case i == 0:
		case i == len(percent)-1:
			text += " and "
		default:
			text += ", "
		}
		text += strconv.Itoa(p) + " %"
	}
	return text
}
