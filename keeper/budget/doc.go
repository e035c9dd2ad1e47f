// Package budget keeps what LLM calls cost within daily budgets, on DynamoDB.
//
// An organisation orders model labels from the preferred to the last resort
// (premium, standard, economy) and gives each a quota in micro-dollars per day
// of its own time zone. [Keeper.Recommend] says which label an application may
// use now; [Keeper.Submit] meters what a call cost, exactly once however often
// it is sent. Money is steered, not stopped: a call that was recommended a label
// is counted in full, also above the label's quota.
//
// Amounts are exact: a price is in micro-dollars per million tokens, so tokens
// times price is a whole number of pico-dollars, and sums are compared as such.
//
// What an administrator changes is changed in somebody's name ([Options].Principal,
// [Keeper.As]), and its event is written with it ([Setup.Audit]).
//
// Bad input is a *fault.ValidationError, and a table that does not answer is a
// *fault.UnavailableError: sending the same record again is safe then, it is counted once.
package budget
