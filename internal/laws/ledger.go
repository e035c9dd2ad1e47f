package laws

import "fmt"

// checkLedgers compares, after the replay, the debits of each limit with the amounts that callers were granted
// and that their leases hold. In exact histories they must be equal for every limit that was always present. It
// adds violations to j.violations, also those of suspect stakes.
func (j *judge) checkLedgers(h *history) {
	for key, told := range h.told {
		if acc := j.accountAt(key); told > acc.granted {
			j.violations = append(j.violations, fmt.Sprintf("L9: callers were granted %d of %s, debited were only %d", told, key, acc.granted))
		}
	}
	owed := j.oracle.allOwed()
	for key, n := range j.oracle.uncounted { // holdings in a window that has ended
		if h.quotas.isQuotaKey(key) {
			owed[key] += n
		}
	}
	held, counted := map[string]int64{}, map[string]int64{}
	for _, l := range h.leases {
		levels := h.inside.Held(l.Lease)
		sure, _ := heldBy(levels)
		for key, n := range sure {
			held[key] += n
		}
		for key, n := range countedBy(levels) {
			counted[key] += n
		}
		j.violations = append(j.violations, l.stake.checkHoldings(levels, j.absent, owed)...)
	}
	for _, s := range j.suspects {
		if !s.isDegraded() {
			j.violations = append(j.violations, s.wrong...)
		}
	}
	j.checkLapsed()
	j.checkSums(h)
	for key, acc := range j.accounts {
		net, exact := acc.granted+acc.adjusted-acc.back, j.rules.exact && !j.absent[key]
		if net < held[key] || exact && net+acc.told != held[key]+counted[key] {
			j.violations = append(j.violations, fmt.Sprintf("L3: callers hold %d of %s and %d of windows that have ended, debited are %d and told %d", held[key], key, counted[key], net, acc.told))
		}
		j.tally["ledgers"]++
	}
}

// checkSums checks for the resource and the group that leases hold as much as the counters of all levels show,
// each call counted once. It adds violations.
func (j *judge) checkSums(h *history) {
	for _, of := range []string{resource, group} {
		j.checkOnce(h, of)
	}
}

// checkOnce adds violations unless the leases of calls on one resource hold as much of each limit as all
// levels' counters show. Each call counts once. Only exact histories and limits that were always present are
// checked.
func (j *judge) checkOnce(h *history, of string) {
	for _, name := range limitNames {
		counted, held, exact := int64(0), int64(0), j.rules.exact
		for _, entity := range h.chargedEntities() {
			bucket := bucketOf(entity, of)
			acc := j.accountOf(bucket, name)
			counted += acc.granted + acc.adjusted + acc.told - acc.back - acc.passed
			exact = exact && !j.absent[bucket+"#"+name]
		}
		for _, l := range h.leases {
			most := int64(0)
			for _, level := range h.inside.Held(l.Lease) {
				for _, h := range level.Holdings {
					if level.Lane.Resource == of && h.Name == name {
						most = max(most, h.Held+h.Counted)
					}
				}
			}
			held += most
		}
		if exact && counted != held {
			j.violations = append(j.violations, fmt.Sprintf("L4: callers hold %d of %s, counted once are %d", held, name, counted))
		}
		if exact {
			j.tally["counted once"]++
		}
	}
}

// checkLapsed adds a violation, in exact histories, for each counter that still includes prefetched tokens that
// were never admitted.
func (j *judge) checkLapsed() {
	for entity, truths := range j.buckets {
		for name, t := range truths {
			if held := t.ahead.held; held != 0 && j.rules.exact && !j.absent[entity+"#"+name] {
				j.violations = append(j.violations, fmt.Sprintf("L4: %d of %s of %s were debited ahead, never admitted and not taken off the counter", held, name, entity))
			}
		}
	}
}
