package schema

// attrLastEvent is the id of the last event of an item's content. An item by another tool has no such id.
const attrLastEvent = "last_event"

// LastEvent returns the id of the event that last changed the item; "" if another tool wrote it.
func LastEvent(item Item) string { return Text(item, attrLastEvent) }

// SetLastEvent sets the id of the event that last changed item, in place. It does nothing for a nil item.
func SetLastEvent(item Item, id string) {
	if item != nil {
		item[attrLastEvent] = String(id)
	}
}
