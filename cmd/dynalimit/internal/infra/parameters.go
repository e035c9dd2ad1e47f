package infra

import (
	"slices"
	"strconv"
)

// parameter is a parameter of what is written, besides the names of tables. An empty value
// is none.
type parameter struct {
	name, value, about, pattern string
	parts                       []Part
	// required means that it has no value by itself.
	required bool
}

func (p parameter) used(m *Model) bool {
	switch {
	case p.name == paramFunction && m.Aggregator: // which is the function
		return false
	case p.name == paramStream && m.Has(PartTables): // which have it
		return false
	}
	for _, part := range p.parts {
		if m.Has(part) {
			return true
		}
	}
	return false
}

// parameters are those of every deployment.
func parameters() []parameter {
	const (
		arnOrNone = "^(arn:.+)?$"
		keyOrNone = "^(arn:.+:key/.+)?$" // a policy that names an alias allows nothing
	)
	all := []parameter{
		{paramProtection, "true", "Whether the tables are protected from being deleted", "", []Part{PartTables}, false},
		{paramKey, "", "ARN of the KMS key, not of an alias, that the tables are encrypted under; empty for a key of Amazon's", keyOrNone, append([]Part{PartTables, PartRoles}, onlyAsked...), false},
		{paramBoundary, "", "ARN of the permissions boundary of the roles; empty for none", arnOrNone, append([]Part{PartRoles}, onlyAsked...), false},
		{paramPrincipal, "", "ARN of who may take the roles; empty for this account, whose policies then say who may", arnOrNone, []Part{PartRoles, partTail, partKeeper}, false},
		{paramService, "", "AWS service that may take the role that serves calls, that which follows the stream, and the keeper's, such as ecs-tasks.amazonaws.com, instead of the principal; empty for none", "", []Part{PartRoles, partTail, partKeeper}, false},
		{paramTopic, "", "ARN of the SNS topic that alarms are sent to; empty for none", arnOrNone, []Part{PartAlarms}, false},
		{paramFunction, "", "Lambda function that reads the stream of the limits; empty for none", "", []Part{PartAlarms}, false},
	}
	return slices.Concat(all, aggregatorParameters(), archiveParameters(), keeperParameters())
}

// What all alarms have in common.
const (
	periodSeconds = int64(60)
	comparison    = "GreaterThanOrEqualToThreshold"
	// missingData is good data: what is counted is published when it happens.
	missingData   = "notBreaching"
	sumExpression = "SUM(FILL(METRICS(), 0))"
)

func metricID(i int) string { return "m" + strconv.Itoa(i+1) }

// dimension is a dimension of a metric: a table, the function that reads the stream, or a
// fixed value.
type dimension struct {
	name, value, table string
	function, queue    bool
	made               string // the function of the deployment that it is of; "" for another one
}

func (m Metric) dimensions() []dimension {
	switch {
	case m.Namespace == namespaceSQS:
		return []dimension{{name: "QueueName", queue: true, made: m.Made}}
	case m.Table == "":
		return []dimension{{name: "FunctionName", function: true, made: m.Made}}
	}
	ds := []dimension{{name: "TableName", table: m.Table}}
	if m.Index != "" {
		ds = append(ds, dimension{name: "GlobalSecondaryIndexName", value: m.Index})
	}
	if m.Operation != "" {
		ds = append(ds, dimension{name: "Operation", value: m.Operation})
	}
	return ds
}
