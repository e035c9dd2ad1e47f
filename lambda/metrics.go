package lambda

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// metricNamespace is that of every metric which dynalimit publishes; its dimension is
// TableName.
const metricNamespace = "dynalimit"

// EmbeddedMetrics returns an Observe that writes metrics of a table into the function's log
// in CloudWatch's embedded metric format, a line for each batch. They are StreamAgeSeconds, UsageGaps,
// and in records RecordsCounted, RecordsRepeated, RecordsIgnored, RecordsSkipped and
// RecordsAgain; for each call of a schedule HoursClosed, HoursFinal and UsageGaps. An error
// of the writer is dropped, and so is every line without a metric.
func EmbeddedMetrics(w io.Writer, table string) func(Report) {
	return embedMetrics(w, table, usageMetrics)
}

// ArchiveMetrics is EmbeddedMetrics for a function that archives, under names that those of
// the table's aggregator do not have: in records ArchiveWritten, ArchiveSkipped and
// ArchiveAgain.
func ArchiveMetrics(w io.Writer, table string) func(Report) {
	return embedMetrics(w, table, archiveMetrics)
}

// embedMetrics writes a line of metrics for each report.
func embedMetrics(w io.Writer, table string, metrics func(Report) []metric) func(Report) {
	if w == nil {
		w = io.Discard
	}
	var mu sync.Mutex
	return func(r Report) {
		line, err := json.Marshal(embedded(metrics(r), table, r.At))
		if err != nil { // numbers and texts
			return
		}
		mu.Lock()
		defer mu.Unlock()
		_, _ = w.Write(append(line, '\n'))
	}
}

// metric is one metric of a report.
type metric struct {
	name, unit string
	value      float64
}

func count(name string, n int) metric { return metric{name, "Count", float64(n)} }

func usageMetrics(r Report) []metric {
	if r.Records == 0 {
		return []metric{count("HoursClosed", r.Closed), count("HoursFinal", r.Final), count("UsageGaps", r.Gaps)}
	}
	return []metric{
		{"StreamAgeSeconds", "Seconds", r.Age.Seconds()},
		count("RecordsCounted", r.Counted), count("RecordsRepeated", r.Repeated), count("RecordsIgnored", r.Ignored),
		count("RecordsSkipped", r.Skipped), count("RecordsAgain", r.Again), count("UsageGaps", r.Gaps),
	}
}

func archiveMetrics(r Report) []metric {
	return []metric{count("ArchiveWritten", r.Counted), count("ArchiveSkipped", r.Skipped), count("ArchiveAgain", r.Again)}
}

// embedded is a line of the format.
func embedded(metrics []metric, table string, at time.Time) map[string]any {
	line := map[string]any{"TableName": table}
	var definitions []map[string]string
	for _, m := range metrics {
		definitions = append(definitions, map[string]string{"Name": m.name, "Unit": m.unit})
		line[m.name] = m.value
	}
	line["_aws"] = map[string]any{
		"Timestamp": at.UnixMilli(),
		"CloudWatchMetrics": []map[string]any{{
			"Namespace": metricNamespace, "Dimensions": [][]string{{"TableName"}}, "Metrics": definitions,
		}},
	}
	return line
}
