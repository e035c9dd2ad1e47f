// Package archive keeps expired items: it writes audit events, hours of usage, sums and counts of
// denials that DynamoDB deletes by their time to live as lines of JSON into compressed
// files, in a folder, in S3 (package s3archive), or into another [Writer].
//
// An [Archive] reads the table's stream separately from the Processor that counts usage, under a name
// and checkpoints of its own, so that neither waits for the other:
//
//	a, err := archive.New(archive.Folder("/var/lib/limits"), nil)
//	tail, err := aggregator.NewTail(streams, client, "limits", a.Process, &aggregator.TailOptions{Name: "archive"})
//	err = tail.Run(ctx)
//
// Failed files are tried again until they succeed: nothing is lost as long as the stream
// keeps it, a day. A record may come again, and its line is then in two files: the line's
// event id identifies it. [Read] reads a file.
//
// # Files
//
// A file is named for its content and its day, in UTC:
//
//	audit/date=2026-03-29/…jsonl.gz          administrative changes
//	usage/hour/date=2026-03-29/…jsonl.gz     usage of entities by hour; also day and month
//	total/plan/day/date=2026-03-29/…jsonl.gz sums over the entities of a resource, on a plan, or below a parent
//
// The name ends on the shard, the first and the last sequence number and a digest of the
// event ids. So the same records make the same file again, with the same bytes, and
// other records another one.
//
// # Lines
//
// Each line is a [Line] as JSON. Numbers are integers as they were stored, with all their
// digits: read them as 64-bit integers, not as floating point.
package archive
