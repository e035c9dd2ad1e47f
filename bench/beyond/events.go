package main

// event is something that happens at an instant, in µs of virtual time.
type event struct {
	at    int64
	order int64 // events of one instant happen as they were made
	do    func(now int64)
	// caller, if do is nil, is the process of which a call arrives.
	caller *process
}

// queue is a heap of events, the next first.
type queue struct {
	events []event
	made   int64
}

func (e event) before(o event) bool {
	return e.at < o.at || e.at == o.at && e.order < o.order
}

// push has something happen at an instant.
func (q *queue) push(e event) {
	q.made++
	e.order = q.made
	q.events = append(q.events, e)
	i := len(q.events) - 1
	for i > 0 && e.before(q.events[(i-1)/4]) {
		q.events[i] = q.events[(i-1)/4]
		i = (i - 1) / 4
	}
	q.events[i] = e
}

// pop takes the next event out; the queue must not be empty.
func (q *queue) pop() event {
	first, last := q.events[0], q.events[len(q.events)-1]
	q.events = q.events[:len(q.events)-1]
	if len(q.events) > 0 {
		q.sink(last)
	}
	return first
}

// sink puts an event at the top and lets it down to its place.
func (q *queue) sink(e event) {
	i := 0
	for {
		least, from := -1, 4*i+1
		for child := from; child < min(from+4, len(q.events)); child++ {
			if least < 0 || q.events[child].before(q.events[least]) {
				least = child
			}
		}
		if least < 0 || !q.events[least].before(e) {
			q.events[i] = e
			return
		}
		q.events[i] = q.events[least]
		i = least
	}
}
