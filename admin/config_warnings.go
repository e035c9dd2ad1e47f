package admin

import (
	"fmt"
	"slices"

	"github.com/dynalimit/dynalimit"
)

// WarnOfChange lists the effects of a change of a source that may be unintended;
// nil if there are none. It refuses nothing. A quota that becomes one of shorter windows, or
// a token bucket, regains the used part of its window meanwhile, and a change back keeps the
// gain.
func (c LimitConfig) WarnOfChange(to LimitConfig) (warnings []string) {
	shortestFirst := []string{"", "hour", "day", "week", "month"} // a bucket regains all the time
	for _, was := range c.Limits {
		i := slices.IndexFunc(to.Limits, func(l dynalimit.Limit) bool { return l.Name == was.Name })
		if i < 0 || slices.Index(shortestFirst, to.Limits[i].Window) >= slices.Index(shortestFirst, was.Window) {
			continue
		}
		becomes := "a token bucket"
		if to.Limits[i].IsQuota() {
			becomes = "one of each " + to.Limits[i].Window
		}
		warnings = append(warnings, fmt.Sprintf("%s is a quota of each %s and becomes %s: the usage of the %s is regained meanwhile, and a change back does not take it away",
			was.Name, was.Window, becomes, was.Window))
	}
	return warnings
}
