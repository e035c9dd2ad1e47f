package plan

// Model names the counter by model of an ask.
type Model struct {
	// Name is the model: the resource of a call that charges a group's bucket. It is empty if the ask is not
	// counted by model.
	Name string
	// Limit is the limit whose amounts are counted. Of a take it is the decision; it is empty if the take is not
	// counted. What an adjust moves is counted as its take was.
	Limit string
	// Fixed means that a take is counted as an earlier one of its lease was.
	Fixed bool
}

// Further returns the counter by model of a further take of a lease: the first take's, fixed, or none if that
// was not counted. If written is false, the lease has taken nothing of the bucket, and the take itself decides.
func (m Model) Further(written bool) Model {
	if m.Fixed = m.Limit != ""; !m.Fixed && written {
		m.Name = ""
	}
	return m
}
