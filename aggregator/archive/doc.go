// Package archive keeps what expires: audit events, hours of usage, sums and counts of
// denials that DynamoDB deletes by their time to live become lines of JSON in compressed
// files, in a folder, in S3 (package s3archive), or wherever a [Writer] puts them.
//
// An [Archive] reads the table's stream beside the Processor that counts usage, under a name
// and checkpoints of its own, so that neither waits for the other:
//
//	a, err := archive.New(archive.Folder("/var/lib/limits"), nil)
//	tail, err := aggregator.NewTail(streams, client, "limits", a.Process, &aggregator.TailOptions{Name: "archive"})
//	err = tail.Run(ctx)
//
// What cannot be written is given again until it can: nothing is lost as long as the stream
// keeps it, a day. Records may come again, and their lines then be in two files: a line's
// event id tells. [Read] reads a file.
//
// # Files
//
// A file is named for what is in it and when that was, in UTC:
//
//	audit/date=2026-03-29/…jsonl.gz          administrative changes
//	usage/hour/date=2026-03-29/…jsonl.gz     usage of entities by hour; also day and month
//	total/plan/day/date=2026-03-29/…jsonl.gz sums over the entities of a resource, on a plan, or below a parent
//
// The name ends on the shard, the first and the last sequence number and a digest of the
// event ids, so that the same records make the same file again, with the same bytes, and
// others another one.
//
// # Lines
//
// Each line is a [Line] as JSON. Numbers are integers as they were stored, with all their
// digits: read them as 64-bit integers, not as floating point.
package archive
