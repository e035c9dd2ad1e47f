package dialect

// item is one item of the input of a Response: it may refer to one of an earlier Response, by its id.
type item struct{ kind, id string }

// refers reports whether an item is not in the request. The id of a made picture refers to it.
func (i item) refers() bool {
	return i.kind == "item_reference" || (i.kind == "" || i.kind == "image_generation_call") && i.id != ""
}
