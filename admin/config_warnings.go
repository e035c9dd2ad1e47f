package admin

import (
	"fmt"
	"slices"

	"github.com/dynalimit/dynalimit"
)

// WarnOfChange returns warnings about unintended effects of replacing c by to; nil without any. It warns of a
// quota that becomes one of shorter windows or a token bucket. Its used part then comes back, and a change back
// keeps that gain.
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
