package laws

import (
	"fmt"
	"slices"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/internal/plan"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// bookStakes adds the write's debits and give-backs to the stake, the sums, of each call's lease, and notes the
// incarnation in which the write landed. A stake that gave back more than its debits becomes a suspect.
func (j *judge) bookStakes(w *ddbmem.Write, entity string, sent *sentWrite, before, after *schema.Image) {
	here := j.incarnations[entity]
	again := slices.Contains(sent.landedIn, here)
	sent.landedIn = append(sent.landedIn, here)
	backs := func(name string) bool { return before != nil && j.appliedBack(sent, name, before, after) > 0 }
	for _, part := range sent.callParts() {
		if part.stake == nil {
			j.recordUnnamed(entity, part.amounts)
			continue
		}
		for _, a := range part.amounts {
			if after.Set.Index(a.Name) < 0 {
				continue
			}
			back, debited := int64(0), int64(0)
			switch {
			case a.Amount < 0 && backs(a.Name):
				back = -a.Amount
			case a.Amount > 0 && !again:
				debited = a.Amount
			}
			j.bookStake(w, part.stake.wholeStake(), lot{entity, here, a.Name}, back, debited, sent)
		}
	}
}

// recordUnnamed adds give-backs of no known lease, the negative amounts, to the oracle's sums of owed
// give-backs, by bucket and limit.
func (j *judge) recordUnnamed(entity string, amounts []plan.Signed) {
	for _, a := range amounts {
		j.oracle.owed[entity+"#"+a.Name] += max(0, -a.Amount)
	}
}

// bookStake adds a give-back and a debit, in millitokens, to one limit's sums in a stake. The debit also counts
// as told if its process learnt of it, and as left if no lease has it. A stake that gave back more than its
// debits gets an error and becomes a suspect.
func (j *judge) bookStake(w *ddbmem.Write, s *stake, k lot, back, debited int64, sent *sentWrite) {
	l := s.lotFor(k)
	l.back += back
	l.debited += debited
	if sent.granted {
		l.told += debited
	}
	if sent.left {
		l.left += debited
	}
	if l.back > l.debited {
		s.wrong = append(s.wrong, fmt.Sprintf("write %d: L7: a lease gave back %d of %s, and %d were debited for it in this bucket", w.Seq, l.back, k.limit, l.debited))
		j.suspects = append(j.suspects, s)
	}
}
