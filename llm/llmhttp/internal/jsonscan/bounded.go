package jsonscan

// kept is the most bytes that a buffer keeps allocated between values.
const kept = 16 << 10

// bounded is a buffer that keeps only the beginning of its input.
type bounded struct {
	b    []byte
	most int
}

// add appends p as far as the buffer has room, and drops the rest.
func (t *bounded) add(p []byte) {
	t.b = append(t.b, p[:min(len(p), t.most-len(t.b))]...)
}

// empty removes the content, keeps the memory, and returns the buffer.
func (t *bounded) empty() *bounded {
	t.b = t.b[:0]
	return t
}

// release frees the memory that one large value took.
func (t *bounded) release() {
	if cap(t.b) > kept {
		t.b = nil
	}
}
