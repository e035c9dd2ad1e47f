package budget

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/prices"
)

// tokens notes the token of each transaction that is sent, under what it writes.
type tokens struct {
	mu    sync.Mutex
	of    map[string][]string
	texts map[string]string
}

func (n *tokens) noteToken(t *testing.T, body []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var request map[string]any
	assert.NoError(t, json.Unmarshal(body, &request))
	token := request["ClientRequestToken"].(string)
	delete(request, "ClientRequestToken")
	text, err := json.Marshal(request)
	assert.NoError(t, err)
	if before, sent := n.texts[token]; sent {
		assert.Equal(t, before, string(text), "one token, two transactions")
	}
	n.texts[token] = string(text)
	n.of[string(text)] = append(n.of[string(text)], token)
}

// A transaction that is sent again keeps its token, so that it is applied once; one
// that is composed anew gets another, so that it is applied at all.
func TestTokenIsOfOneTransaction(t *testing.T) {
	simulated(t, Options{}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		_, err := k.Submit(t.Context(), orgO, appA, call(1))
		require.NoError(t, err)
		sent := tokens{of: map[string][]string{}, texts: map[string]string{}}
		notes := func(fault func(n int) ddbmem.Fault) {
			n := 0
			db.SetFaults(func(r *ddbmem.Request) ddbmem.Fault {
				if r.Operation != "TransactWriteItems" {
					return ddbmem.Fault{}
				}
				sent.noteToken(t, r.Body)
				sent.mu.Lock()
				defer sent.mu.Unlock()
				n++
				return fault(n)
			})
		}
		notes(func(n int) ddbmem.Fault { return ddbmem.Fault{Lose: n <= 2} })
		_, err = k.Submit(t.Context(), orgO, appA, call(2))
		require.NoError(t, err)
		require.Len(t, sent.of, 1, "sent again unchanged")
		for _, all := range sent.of {
			assert.Equal(t, []string{all[0], all[0], all[0]}, all)
		}

		other, err := New(db.Client(), Tables{}, &Options{AllowUnknownApps: true, Principal: tester, Models: fixtureModels})
		require.NoError(t, err)
		_, err = other.Submit(t.Context(), orgO, appA, call(5)) // and k does not know
		require.NoError(t, err)
		require.NoError(t, other.Close(t.Context()))
		notes(func(int) ddbmem.Fault { return ddbmem.Fault{Before: 100 * time.Millisecond} })
		var calls sync.WaitGroup
		submit := func(i int) {
			_, err := k.Submit(t.Context(), orgO, appA, call(i))
			assert.NoError(t, err)
		}
		calls.Go(func() { submit(3) })
		pass(10 * time.Millisecond) // the others ride together in the next
		calls.Go(func() { submit(4) })
		calls.Go(func() { submit(5) })
		calls.Wait()
		assert.GreaterOrEqual(t, len(sent.of), 4, "composed anew without the record that was counted before")
	})
}

// Records under one id that are sent together are one record only if they are the
// same.
func TestRecordsUnderOneIDSentTogetherConflict(t *testing.T) {
	simulated(t, Options{}, fixtureOrg(), func(t *testing.T, db *ddbmem.DB, k *Keeper) {
		_, err := k.Submit(t.Context(), orgO, appA, call(1))
		require.NoError(t, err)
		db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Before: 100 * time.Millisecond} })
		var calls sync.WaitGroup
		calls.Go(func() { _, _ = k.Submit(t.Context(), orgO, appA, call(2)) })
		pass(10 * time.Millisecond)
		other := call(3)
		other.Tokens.Output++
		results := make([]Receipt, 3)
		errs := make([]error, 3)
		for i, u := range []prices.Usage{call(3), call(3), other} {
			calls.Go(func() { results[i], errs[i] = k.Submit(t.Context(), orgO, appA, u) })
			pass(time.Millisecond)
		}
		calls.Wait()
		require.NoError(t, errs[0])
		require.NoError(t, errs[1])
		assert.Equal(t, []bool{false, true}, []bool{results[0].Duplicate, results[1].Duplicate})
		assert.ErrorIs(t, errs[2], ErrConflict)
	})
}
