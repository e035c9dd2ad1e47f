// Package denials counts the acquires that a limiter denies, by entity, resource, limit and
// hour, so that usage can show them: a denial writes no bucket, and leaves no record in the
// table's stream.
//
// A [Recorder] is an observer of the limiter. It sums denials in the process, and adds them
// to the table at most once a minute an item, so that a flood of denials costs next to
// nothing:
//
//	recorder, err := denials.New(client, "limits", nil)
//	limiter, err := dynalimit.New(repo, &dynalimit.Options{Observer: recorder})
//	defer recorder.Close(ctx) // after the limiter's
//
// Unlike usage, these counts are best effort. They are never too high: what may have been
// added and was not confirmed is not added again. They may be too low: what a process holds
// when it dies is lost, and so is what does not fit into its memory. [Recorder.Stats] tells
// what was lost.
package denials
