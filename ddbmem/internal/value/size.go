package value

// Size returns the bytes v takes in an item, as DynamoDB's documentation of item sizes counts them. Text and
// binary count their length, a number one byte per two digits and one more. A list or map counts three bytes
// and one per element.
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

// textSize sums the lengths of the members in bytes.
func textSize(members []string) int {
	size := 0
	for _, s := range members {
		size += len(s)
	}
	return size
}

// Size is the bytes m takes as an item: the names and values of its attributes.
func (m Map) Size() int {
	size := 0
	for name, v := range m {
		size += len(name) + Size(v)
	}
	return size
}
