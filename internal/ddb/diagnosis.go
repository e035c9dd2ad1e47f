package ddb

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Item is an item as the SDK has it.
type Item = map[string]types.AttributeValue

// Verdict is what the answer to a request, or its absence, says about a write.
type Verdict uint8

// The verdicts.
const (
	// Landed: the request succeeded.
	Landed Verdict = iota
	// Refused: a condition failed; nothing was applied.
	Refused
	// Conflicted: a transaction was in the way; nothing was applied.
	Conflicted
	// Throttled: DynamoDB had no capacity; nothing was applied.
	Throttled
	// Unsent: the request never left this process; nothing was applied.
	Unsent
	// Unconfirmed: no answer came, so the write may have been applied.
	Unconfirmed
	// Failed: the request, or the setting behind it, is wrong; nothing was
	// applied.
	Failed
	// TokenMismatch: the client token was used before with another transaction;
	// nothing was applied.
	TokenMismatch
)

// String names the verdict as observers see it.
func (v Verdict) String() string {
	return [...]string{"landed", "refused", "conflicted", "throttled", "unsent", "unconfirmed", "failed", "token mismatch"}[v]
}

// Unavailable says that the store did not serve a good request: it may be asked
// again. A wrong request or setting is never unavailable.
func (v Verdict) Unavailable() bool {
	return v == Conflicted || v == Throttled || v == Unsent || v == Unconfirmed
}

// Diagnosis is what an error of a request means.
type Diagnosis struct {
	// Err is the error, nil for none.
	Err error
	// Verdict is what it says about a write.
	Verdict Verdict
	// Item is the item whose condition failed, nil when the answer has none.
	Item Item
	// Items are those of a transaction by their place, and Item is nil: nil
	// unless a condition failed.
	Items map[int]Item
	// Silent says that DynamoDB did not answer although it was given the time:
	// our own timeout passed, the connection broke or was never made, the
	// answer was a 5xx, or credentials could not be fetched.
	Silent bool
	// Answered says that DynamoDB answered, and so lives.
	Answered bool
	// Setting says that a setting is wrong: permissions, credentials, region,
	// endpoint or table. Nobody is admitted because of one.
	Setting bool

	// RetryAfter is the time until the table is asked again whether it answers; 0
	// while it is not known not to.
	RetryAfter time.Duration

	// unproven marks a Setting that is an outage once the table has answered: a
	// host that cannot be found, or shows another's certificate.
	unproven bool
	// expired says that our own timeout passed.
	expired bool
}

// proven is the diagnosis of a table that has answered before.
func (d Diagnosis) proven() Diagnosis {
	if d.unproven {
		d.Verdict, d.Silent, d.Setting, d.unproven = Unsent, true, false, false
	}
	return d
}
