package llmhttp_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dynalimit/dynalimit"
)

// findViolations says what is wrong after a storm.
func (k *sky) findViolations() (wrong []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	settled, unwritten := dynalimit.Amounts{"rpm": 0, "tpm": 0, "usd": 0}, false
	for i, c := range k.calls {
		ends, arrived := k.settled[strconv.Itoa(i)], k.providers[i].Calls()
		if k.sent[i] > 1 || len(ends) != k.sent[i] {
			say("call %d was sent %d times and settled %d times", i, k.sent[i], len(ends))
		}
		if len(ends) != 1 {
			continue
		}
		t := ends[0].Tokens
		sum := t.Input + t.CacheRead + t.Output
		settled["tpm"] += sum
		settled["usd"] += ends[0].CostMicros
		if ends[0].Status != "" {
			settled["rpm"]++
		}
		unwritten = unwritten || ends[0].Err != nil && strings.Contains(ends[0].Err.Error(), "was not written")
		if len(arrived) == 0 {
			continue
		}
		bill := arrived[0].Billed.Input + arrived[0].Billed.CacheRead + arrived[0].Billed.Output
		if bill > 0 && sum == 0 {
			say("call %d was billed %d and given back", i, bill)
		}
		if k.whole[i] && c.reportsUsage() && sum != bill {
			say("call %d was billed %d and settled at %d: %+v", i, bill, sum, ends[0])
		}
	}
	h := k.limiter.Health()
	if h.Settling+h.WaitingBuckets > 0 || h.Open {
		say("something is still to be settled: %+v", h)
	}
	for _, entity := range []string{"ana", "team"} {
		taken := k.limiter.Taken(entity, "m")
		for name, n := range settled {
			off, doubt := taken[name]-n, h.Doubt[name]+h.Dropped[name]
			// Of a limit that comes and goes, what an outage degraded may be off (docs/design/outages.md).
			comes := k.comes(name)
			if !unwritten && (off > doubt && (!comes || len(k.gusts) == 0) || off < -doubt && !comes) {
				say("%s took %d of %s; settled were %d, in doubt are %d", entity, taken[name], name, n, doubt)
			}
		}
	}
	return wrong
}

// reportsUsage reports whether all of an answer tells what was used.
func (c stormCall) reportsUsage() bool {
	a := c.answer
	unasked := c.signed && c.path == chatPath // for the usage of its stream
	return !unasked && !a.NoUsage && a.Error == "" && a.CutAfter == 0 && a.Body == "" && !a.WrongCRC && a.Status == 0
}

// comes reports whether a limit is not always in force.
func (k *sky) comes(name string) bool {
	return name != "usd" && slices.ContainsFunc(k.changes, func(c change) bool {
		return !slices.ContainsFunc(c.limits, func(l dynalimit.Limit) bool { return l.Name == name })
	})
}
