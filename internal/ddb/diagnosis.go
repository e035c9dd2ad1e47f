package ddb

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Item is an item in the form of the SDK.
type Item = map[string]types.AttributeValue

// Verdict is the outcome of a write, as far as the answer to its request, or the lack of one, shows it.
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

// String returns the name of the verdict, as observers see it.
func (v Verdict) String() string {
	return [...]string{"landed", "refused", "conflicted", "throttled", "unsent", "unconfirmed", "failed", "token mismatch"}[v]
}

// Unavailable reports whether the store did not serve a good request, or did not confirm it. The store may
// be asked again. A wrong request or setting is never unavailable.
func (v Verdict) Unavailable() bool {
	return v == Conflicted || v == Throttled || v == Unsent || v == Unconfirmed
}

// Diagnosis is the meaning of an error of a request.
type Diagnosis struct {
	// Err is the error. It is nil for a success.
	Err error
	// Verdict is the outcome of a write.
	Verdict Verdict
	// Item is the item with the failed condition. It is nil if the answer has none.
	Item Item
	// Items are the items of a transaction with a failed condition, by their place; Item is then nil.
	Items map[int]Item
	// Silent means that DynamoDB did not answer within the given time: our own timeout passed, the connection
	// broke or was never made, the answer was a 5xx, or credentials could not be fetched.
	Silent bool
	// Answered means that DynamoDB answered, and so is up.
	Answered bool
	// Setting means that a setting is wrong: permissions, credentials, region, endpoint or table. A wrong
	// setting never admits a call.
	Setting bool

	// RetryAfter is the time until the next probe of the table; 0 unless the table is known not to answer.
	RetryAfter time.Duration

	// unproven marks a Setting that is an outage if the table has answered before: an unknown host, or
	// another host's certificate.
	unproven bool
	// expired means that our own timeout passed.
	expired bool
}

// asProven returns the diagnosis for a table that has answered before: an unknown host or another host's
// certificate is then an outage, not a setting. Any other diagnosis stays.
func (d Diagnosis) asProven() Diagnosis {
	if d.unproven {
		d.Verdict, d.Silent, d.Setting, d.unproven = Unsent, true, false, false
	}
	return d
}
