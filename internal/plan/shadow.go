package plan

// A limit in shadow is counted and denies nothing. A take that fits what its decision saw is
// charged, whoever else takes meanwhile; one that does not goes to the counter alone. So what is
// used beyond the limit leaves no debt behind that would deny for days once it is enforced.

// Shadowed tells, of what a take asks of limits in shadow, what fits a view beside the sums already
// carried from what is beyond the limit.
func Shadowed(amounts []Signed, v View, carried Sums) (fits, beyond []Signed) {
	if v.Config == nil || v.Config.Shadow == 0 {
		return nil, nil
	}
	for _, a := range amounts {
		if !v.Config.InShadow(a.Name) {
			continue
		}
		beside := v.Of(carried, a.Name)
		if room, _ := v.Room(a.Name, beside.Back); a.Amount <= room-beside.Take-beside.Adjust {
			fits = append(fits, a)
		} else {
			beyond = append(beyond, a)
		}
	}
	return fits, beyond
}
