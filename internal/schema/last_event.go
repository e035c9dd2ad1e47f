package schema

// attrLastEvent is the id of the last event of an item's content. An item by another tool has no such id.
const attrLastEvent = "last_event"

// LastEvent returns the id of an item's last event; empty without one.
func LastEvent(item Item) string { return Text(item, attrLastEvent) }

// SetLastEvent sets the last event of an item, unless item is nil.
func SetLastEvent(item Item, id string) {
	if item != nil {
		item[attrLastEvent] = String(id)
	}
}
