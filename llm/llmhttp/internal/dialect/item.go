package dialect

// item is one of the input of a Response: it may refer to one of an earlier Response, by its id.
type item struct{ kind, id string }

// refers reports whether an item is not in the request. A picture that was made is known by its id.
func (i item) refers() bool {
	return i.kind == "item_reference" || (i.kind == "" || i.kind == "image_generation_call") && i.id != ""
}
