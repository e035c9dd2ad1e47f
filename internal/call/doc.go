// Package call makes the calls of a limiter. A call finds its buckets, decides from memory if it can, asks the
// buckets and books their answers. It corrects the charged amounts later, and waits in line.
//
// Request is the validated input of a call, and Desk the shared state of all calls. Desk.Take returns a Call:
// it has a level for each of its buckets. Call.Correct and Call.Consume change it. A failed call has a reason,
// from which the root makes the error that users see.
package call
