package aggregator

import (
	"context"
	"fmt"
	"iter"

	"github.com/dynalimit/dynalimit/internal/table"
)

// list is values in an order, page by page; it ends with its first error.
type list[T any] = iter.Seq2[T, error]

// forEach passes the values of a list to do, until do returns false or the list has an error, and
// returns that error.
func forEach[T any](values list[T], do func(T) bool) error {
	for v, err := range values {
		if err != nil {
			return err
		}
		if !do(v) {
			return nil
		}
	}
	return nil
}

// convertList returns the list of the values that of returns for each. It ends with the first error of the list
// or of a conversion.
func convertList[From, To any](values list[From], of func(From) (To, error)) list[To] {
	return func(yield func(To, error) bool) {
		for v, err := range values {
			var to To
			if err == nil {
				to, err = of(v)
			}
			if !yield(to, err) || err != nil {
				return
			}
		}
	}
}

// head is where a list is read.
type head[T any] struct {
	next  func() (T, error, bool)
	stop  func()
	value T
	err   error
	more  bool
}

// advance reads the next value of the list into h.
func (h *head[T]) advance() { h.value, h.err, h.more = h.next() }

// mergeLists merges lists that are sorted by compare into one sorted list. It ends with the first
// error.
func mergeLists[T any](compare func(a, b T) int, lists ...list[T]) list[T] {
	return func(yield func(T, error) bool) {
		heads := make([]head[T], len(lists))
		for i, l := range lists {
			heads[i].next, heads[i].stop = iter.Pull2(l)
			defer heads[i].stop()
			heads[i].advance()
		}
		for {
			h := leastHead(compare, heads)
			if h == nil || !yield(h.value, h.err) || h.err != nil {
				return
			}
			h.advance()
		}
	}
}

// leastHead returns the first head with an error, or else the head with the least value. It is nil if all lists
// are at their end.
func leastHead[T any](compare func(a, b T) int, heads []head[T]) *head[T] {
	var first *head[T]
	for i := range heads {
		h := &heads[i]
		switch {
		case !h.more:
		case h.err != nil:
			return h
		case first == nil || compare(h.value, first.value) < 0:
			first = h
		}
	}
	return first
}

// untilEnded returns a list that ends with ctx's own error, in place of the list's error, once ctx has ended.
func untilEnded[T any](ctx context.Context, values list[T]) list[T] {
	return func(yield func(T, error) bool) {
		for v, err := range values {
			if !yield(v, endOf(ctx, err)) || err != nil {
				return
			}
		}
	}
}

// endOf returns err, or the cause of ctx's end if ctx has ended and err is not nil.
func endOf(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("aggregator: read usage: %w", context.Cause(ctx))
}

// listOf returns its arguments as a list without an error.
func listOf[T any](of ...T) list[T] {
	return func(yield func(T, error) bool) { table.YieldAll(of, yield) }
}

// withoutRepeats returns the list with each name once. names must be sorted, and none of them empty. Errors
// pass through.
func withoutRepeats(names list[string]) list[string] {
	return func(yield func(string, error) bool) {
		before := ""
		for name, err := range names {
			if err == nil && name == before {
				continue
			}
			if before = name; !yield(name, err) {
				return
			}
		}
	}
}
