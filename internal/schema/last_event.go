package schema

// attrLastEvent is the id of the last event of what an item says. An item that another tool
// made has none.
const attrLastEvent = "last_event"

// LastEvent is the id of an item's last event; empty for none.
func LastEvent(item Item) string { return Text(item, attrLastEvent) }

// SetLastEvent names the last event in an item; nil is none.
func SetLastEvent(item Item, id string) {
	if item != nil {
		item[attrLastEvent] = String(id)
	}
}
