// Package trail makes the record of an administrative change: its author and target,
// its time, and the fields before and after. It is pure: it makes events and their items.
// Every change writes the item in its own transaction, so that
// there is no change without its event and no event without its change.
//
// Events have more readers than their targets, and they outlive them.
// So no password, key, token, or hash of one is ever a field of an event. An event of
// credentials names the action ("secret_rotated") and visible properties, such as a key's
// name, version and end, and leaves its value out of [Fields]. For that reason fields are listed one by
// one, never copied from an item.
package trail
