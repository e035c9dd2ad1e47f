package value

// Size returns the bytes that v takes in an item, by DynamoDB's rules. Text and binary count their length, a
// number one per two digits and one more, other scalars one. A list or map counts three, and one more for each
// element; nil counts 0.
func Size(v Value) int {
	switch v := v.(type) {
	case String:
		return len(v)
	case Binary:
		return len(v)
	case Number:
		return v.size()
	case Bool, Null:
		return 1
	case List:
		size := 3
		for _, e := range v {
			size += 1 + Size(e)
		}
		return size
	case Map:
		return 3 + len(v) + v.Size()
	case StringSet:
		return textSize(v)
	case BinarySet:
		return textSize(v)
	case NumberSet:
		size := 0
		for _, n := range v {
			size += n.size()
		}
		return size
	}
	return 0
}

// textSize returns the sum of the lengths of the members in bytes.
func textSize(members []string) int {
	size := 0
	for _, s := range members {
		size += len(s)
	}
	return size
}

// Size returns the bytes that m takes as an item: the names and values of its attributes. As a nested value it
// takes more, see the function Size.
func (m Map) Size() int {
	size := 0
	for name, v := range m {
		size += len(name) + Size(v)
	}
	return size
}
