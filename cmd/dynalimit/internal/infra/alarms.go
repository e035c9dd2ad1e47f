package infra

// Alarm is an alarm on a metric, or on the sum of some.
type Alarm struct {
	// ID begins the name of what is made for it.
	ID string
	// About says what it means, and what to do.
	About string
	// Metrics are summed.
	Metrics []Metric
	// Statistic is how each is read: Sum or Maximum.
	Statistic string
	// Threshold is compared with "greater than or equal to" in each of Periods periods of a
	// minute.
	Threshold int64
	Periods   int
	// Function means that it is there only where a Lambda function reads the stream.
	Function bool
	// Steady means that its metric is published every minute while all is well, so that
	// silence is told too, once there was something.
	Steady bool
}

// summed reports whether the alarm is on an expression rather than on its one metric. A
// metric of DynamoDB's own is missing where there is nothing to count, and an alarm on the
// metric itself stays as it is then, however missing data is to be treated: it would never
// be over. So an expression fills what is missing.
func (a Alarm) summed() bool {
	return len(a.Metrics) > 1 || a.Metrics[0].Namespace == namespaceDynamoDB
}

// Metric is one metric of CloudWatch.
type Metric struct {
	Namespace, Name string
	// Table is the id of the table that it is about.
	Table string
	// Operation is the operation that it is about, "" for a metric that is about none.
	Operation string
	// Made is the id of the function of the deployment itself whose it is, or whose queue's;
	// "" for what is not made here.
	Made string
	// Index is the index that it is about, "" for a metric that is about none.
	Index string
}

// The metrics that a process publishes itself; their dimension is TableName.
const (
	// MetricNamespace is the namespace of the metrics.
	MetricNamespace = "dynalimit"
	// MetricDegradedLeases counts the calls that a policy admitted because DynamoDB did not
	// answer.
	MetricDegradedLeases = "DegradedLeases"
	// MetricStreamAge is how old the latest record is that whoever reads the table's
	// stream has read, in seconds; 0 when nothing is left to read. It is published every
	// minute.
	MetricStreamAge = "StreamAgeSeconds"

	namespaceDynamoDB = "AWS/DynamoDB"
	namespaceLambda   = "AWS/Lambda"
	namespaceSQS      = "AWS/SQS"
)

// faultyOperations are those whose system errors are watched.
var faultyOperations = []string{"BatchGetItem", "GetItem", "Query", "TransactWriteItems", "UpdateItem"}

func alarms(tables []Table) []Alarm {
	var all []Alarm
	for _, t := range tables {
		all = append(all,
			throttles(t, "Read", "Reads are throttled: a partition is read too often. Raise the time that configuration is kept in memory, or the table's maximum."),
			throttles(t, "Write", "Writes are throttled: an entity's bucket is written too often. See Health.Hottest, and prefetch for the limits that it has."),
			systemErrors(t),
		)
	}
	limits := tables[0].ID
	return append(all,
		Alarm{
			ID: "DegradedLeases", About: "Calls were admitted without their buckets, because DynamoDB did not answer. See the region's health, and the policy for outages.",
			Metrics: []Metric{{Namespace: MetricNamespace, Name: MetricDegradedLeases, Table: limits}}, Statistic: "Sum", Threshold: 1, Periods: 1,
		},
	)
}

// streamAlarms are those on whoever reads the stream of a table: somebody, or the function
// that is deployed, which says nothing while there is nothing to read.
func streamAlarms(o Options, limits string) []Alarm {
	age := Alarm{
		ID: "StreamFunctionAge", About: "The function that reads the table's stream is far behind. See whether it fails.",
		Metrics: []Metric{{Namespace: namespaceLambda, Name: "IteratorAge"}}, Statistic: "Maximum", Threshold: 300_000, Periods: 3, Function: !o.Aggregator,
	}
	if o.Aggregator {
		age.Metrics[0].Made = aggregatorID
		age.Threshold = 900_000 // it waits up to 5 minutes for records on purpose
		return append([]Alarm{age}, aggregatorAlarms(limits)...)
	}
	age.About = "The function that reads the table's stream is more than 5 minutes behind. See whether it fails."
	return []Alarm{{
		ID: "StreamAge", About: "Whoever reads the table's stream is more than 5 minutes behind, or says nothing any more. See whether it runs, and whether it fails.",
		Metrics: []Metric{{Namespace: MetricNamespace, Name: MetricStreamAge, Table: limits}}, Statistic: "Maximum", Threshold: 300, Periods: 3, Steady: true,
	}, age}
}

// missing is how missing data is treated. An alarm on what is always there is without data
// then; any other alarm is over.
func (a Alarm) missing() string {
	if a.Steady {
		return "missing"
	}
	return missingData
}

// throttles is the alarm on throttled reads or writes of a table and its indexes.
func throttles(t Table, kind, about string) Alarm {
	a := Alarm{ID: t.ID + kind + "Throttles", About: about, Statistic: "Sum", Threshold: 1, Periods: 3}
	a.Metrics = append(a.Metrics, Metric{Namespace: namespaceDynamoDB, Name: kind + "ThrottleEvents", Table: t.ID})
	for _, x := range t.Input.GlobalSecondaryIndexes {
		a.Metrics = append(a.Metrics, Metric{Namespace: namespaceDynamoDB, Name: kind + "ThrottleEvents", Table: t.ID, Index: *x.IndexName})
	}
	return a
}

func systemErrors(t Table) Alarm {
	a := Alarm{
		ID: t.ID + "SystemErrors", About: "DynamoDB fails. Calls go on by the policy for outages. See the region's health.",
		Statistic: "Sum", Threshold: 5, Periods: 3,
	}
	for _, operation := range faultyOperations {
		a.Metrics = append(a.Metrics, Metric{Namespace: namespaceDynamoDB, Name: "SystemErrors", Table: t.ID, Operation: operation})
	}
	return a
}
