// Package audit is what is recorded about an administrative change: who changed what,
// when, and the fields before and after. It is pure: it makes events and their items;
// whoever makes the change writes the item in the transaction of the change, so that
// there is no change without its event and no event without its change.
package audit
