// Package trail is what is recorded about an administrative change: who changed what,
// when, and the fields before and after. It is pure: it makes events and their items;
// whoever makes the change writes the item in the transaction of the change, so that
// there is no change without its event and no event without its change.
//
// Events are read by more people than what they tell of, and they stay when it is gone.
// So no password, key, token, or hash of one is ever a field of an event: whoever adds
// credentials names what was done ("secret_rotated") and what may be seen, such as a key's
// name, version and end, and leaves its value out of [Fields]. Fields are listed one by
// one for that reason, never copied from an item.
package trail
