package infra

// streamFunction is a function of AWS Lambda that the stream of the limits calls.
type streamFunction struct {
	// id begins the names of what is made for it.
	id string
	// about says what it is, to people who look at it, and note to readers of a template.
	about, note string
	// pattern is the filter of its records, and lets says what that lets through.
	pattern, lets string
	// batch is how many records it is given at most.
	batch int64
	// window is the parameter that says how long it waits for records; "" is as long as it
	// can.
	window string
	// closes means that a schedule calls it.
	closes   bool
	settings []setting
}

// setting is a variable of a function's environment that has a parameter's value.
type setting struct {
	name, param string
	// optional means that the parameter may have none.
	optional bool
}

// longestWindow is how many seconds Lambda waits for records at most.
const longestWindow = int64(300)

func functionOf(id string) string { return id + "Function" }

func queueOf(id string) string { return id + "DeadLetters" }

// functions are those that are deployed.
func (m *Model) functions() (all []streamFunction) {
	if m.Aggregator {
		all = append(all, streamFunction{
			id: aggregatorID, about: "Adds the stream of the limits to usage (dynalimit)", note: "Adds the stream of the limits to usage, and closes its hours.",
			pattern: bucketRecords, lets: "Records of buckets alone.", batch: batchSize, window: paramWindow, closes: true,
			settings: []setting{{"DYNALIMIT_RETENTION_DAYS", paramRetention, false}},
		})
	}
	if m.Archive {
		all = append(all, streamFunction{
			id: archiveID, about: "Keeps what expires of the limits in S3 (dynalimit)", note: "Keeps changes, usage and denials that expire.",
			pattern: expiredRecords, lets: "What DynamoDB deleted by its time to live, and is archived.", batch: archiveBatch,
			settings: []setting{{"DYNALIMIT_ARCHIVE_BUCKET", paramBucket, false}, {"DYNALIMIT_ARCHIVE_PREFIX", paramPrefix, false}, {"DYNALIMIT_ARCHIVE_KMS_KEY", paramArchiveKey, true}},
		})
	}
	return all
}
