package lambda

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// metricNamespace is the namespace of every metric of dynalimit. Its dimension is TableName.
const metricNamespace = "dynalimit"

// EmbeddedMetrics returns an Observe that writes metrics of a table to w, the function's log, in CloudWatch's
// embedded metric format. A batch gets a line with StreamAgeSeconds, UsageGaps, and the numbers RecordsCounted,
// RecordsRepeated, RecordsIgnored, RecordsSkipped and RecordsAgain. A call of a schedule gets HoursClosed,
// HoursFinal and UsageGaps; errors of w are dropped.
func EmbeddedMetrics(w io.Writer, table string) func(Report) {
	return embedMetrics(w, table, usageMetrics)
}

// ArchiveMetrics returns an Observe like EmbeddedMetrics, for a function that archives. Its metrics are the
// numbers of records ArchiveWritten, ArchiveSkipped and ArchiveAgain.
func ArchiveMetrics(w io.Writer, table string) func(Report) {
	return embedMetrics(w, table, archiveMetrics)
}

// embedMetrics returns a function that writes a report's metrics to w as one line of JSON. It is safe for
// concurrent use and ignores errors of w, and reports that cannot be encoded. A nil w discards the lines.
func embedMetrics(w io.Writer, table string, metrics func(Report) []metric) func(Report) {
	if w == nil {
		w = io.Discard
	}
	var mu sync.Mutex
	return func(r Report) {
		line, err := json.Marshal(newLine(metrics(r), table, r.At))
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

// countMetric returns a metric with a number of items and the unit Count.
func countMetric(name string, n int) metric { return metric{name, "Count", float64(n)} }

// usageMetrics returns the metrics of a report: those of closed hours if it has no records, else those of the
// records. The stream's age is in seconds.
func usageMetrics(r Report) []metric {
	if r.Records == 0 {
		return []metric{countMetric("HoursClosed", r.Closed), countMetric("HoursFinal", r.Final), countMetric("UsageGaps", r.Gaps)}
	}
	return []metric{
		{"StreamAgeSeconds", "Seconds", r.Age.Seconds()},
		countMetric("RecordsCounted", r.Counted), countMetric("RecordsRepeated", r.Repeated), countMetric("RecordsIgnored", r.Ignored),
		countMetric("RecordsSkipped", r.Skipped), countMetric("RecordsAgain", r.Again), countMetric("UsageGaps", r.Gaps),
	}
}

// archiveMetrics returns the metrics of an archiver's report: the numbers of records written, skipped and to
// come again.
func archiveMetrics(r Report) []metric {
	return []metric{countMetric("ArchiveWritten", r.Counted), countMetric("ArchiveSkipped", r.Skipped), countMetric("ArchiveAgain", r.Again)}
}

// newLine returns the JSON object of a line in CloudWatch's embedded metric format, with the table as the
// metrics' dimension and at as their time.
func newLine(metrics []metric, table string, at time.Time) map[string]any {
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
