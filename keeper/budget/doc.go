// Package budget keeps the cost of LLM calls within daily budgets, on DynamoDB.
//
// An organisation orders model labels from the preferred to the last resort (premium, standard,
// economy) and gives each a quota in micro-dollars per day of its own time zone.
// [Keeper.Recommend] returns the label that an application may use now. [Keeper.Submit] counts
// the cost of a call exactly once, however often it is sent. A budget steers calls and does not
// stop them: a call to a recommended label is counted in full, even above the label's quota.
//
// Amounts are exact. A price is in micro-dollars per million tokens, so tokens times price is a
// whole number of pico-dollars, and sums are compared in pico-dollars.
//
// An administrator's change carries a name ([Options].Principal, [Keeper.As]), and an audit
// event is written with it ([Setup.Audit]).
//
// Bad input is a *fault.ValidationError. If a table does not answer, the error is a
// *fault.UnavailableError. Sending the same record again is safe then, because it is counted
// once.
package budget
