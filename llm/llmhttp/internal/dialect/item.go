package dialect

// item is one item of the input of a Response: it may refer to one of an earlier Response, by its id.
type item struct{ kind, id string }

// isReference reports whether an item of the input only refers to one of an earlier Response, by its id. An
// item without a type, or a made picture, does so if it has an id.
func (i item) isReference() bool {
	return i.kind == "item_reference" || (i.kind == "" || i.kind == "image_generation_call") && i.id != ""
}
