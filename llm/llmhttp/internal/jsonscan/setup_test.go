package jsonscan

import "github.com/stretchr/testify/require"

// seen is an event that outlives its call.
type seen struct {
	Path int
	Kind Kind
	Text string
	Len  int64
}

// reading is what a scanner made of an input.
type reading struct {
	events []seen
	err    error
}

// read writes input in pieces of so many bytes, twice, as the second time the start is known. It
// checks that the chunks are the strings, cut nowhere.
func read(t require.TestingT, p *Paths, o Options, input string, size int) reading {
	var r reading
	chunks := map[int]string{}
	o.Chunk = func(path int, b []byte) { chunks[path] += string(b) }
	s := New(p, o, func(e Event) error {
		r.events = append(r.events, seen{e.Path, e.Kind, string(e.Text), e.Len})
		if e.Kind == String {
			whole := chunks[e.Path]
			require.Equal(t, whole[:min(len(whole), o.Capture)], string(e.Text), "%q", input)
			delete(chunks, e.Path)
		}
		return nil
	})
	for range 2 {
		first := r
		r, chunks = reading{}, map[int]string{}
		s.Reset()
		r.err = write(s, input, size)
		if first.err != nil || first.events != nil {
			require.Equal(t, first, r, "%q again", input)
		}
	}
	return r
}

func write(s *Scanner, input string, size int) error {
	b := []byte(input)
	for len(b) > 0 {
		n := min(size, len(b))
		if _, err := s.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return s.Close()
}
