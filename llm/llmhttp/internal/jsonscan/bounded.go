package jsonscan

// kept is the most bytes that a buffer keeps allocated between values.
const kept = 16 << 10

// bounded is a buffer that keeps only the beginning of its input.
type bounded struct {
	b    []byte
	most int
}

// add appends p up to the buffer's limit, and drops the rest.
func (t *bounded) add(p []byte) {
	t.b = append(t.b, p[:min(len(p), t.most-len(t.b))]...)
}

// empty removes the content, keeps the memory, and returns the buffer.
func (t *bounded) empty() *bounded {
	t.b = t.b[:0]
	return t
}

// release frees the buffer's memory and content if it is above 16 KiB, as after one large value.
func (t *bounded) release() {
	if cap(t.b) > kept {
		t.b = nil
	}
}
