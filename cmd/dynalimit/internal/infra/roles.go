package infra

import (
	"github.com/dynalimit/dynalimit/internal/schema"
)

// Condition keys of DynamoDB, and the operators that they need. A request may touch many
// keys and attributes, so they are compared as sets; such a comparison holds for a request
// that says nothing of the key, so the Null beside it requires that the key is there.
const (
	leadingKeys   = "dynamodb:LeadingKeys"
	attributes    = "dynamodb:Attributes"
	allLike       = "ForAllValues:StringLike"
	noneLike      = "ForAllValues:StringNotLike"
	absent        = "Null"
	viaService    = "kms:ViaService"
	stringLike    = "StringLike"
	actionsPrefix = "dynamodb:"
)

// bounded are the conditions that keep a statement to values of a key.
func bounded(key string, values []string) []Condition {
	if len(values) == 0 {
		return nil
	}
	return []Condition{{allLike, key, values}, {absent, key, []string{"false"}}}
}

func actions(names ...string) []string {
	for i := range names {
		names[i] = actionsPrefix + names[i]
	}
	return names
}

// roles are the roles of a deployment.
func roles(o Options) []Role {
	all := []Role{
		{ID: "Acquire", About: "Serves calls: takes from buckets, and cannot change a limit", Serves: true, Statements: acquireStatements(o)},
		{ID: "Read", About: "Reads limits, entities, buckets and the history of changes", Statements: readStatements(o)},
		{ID: "Admin", About: "Changes limits, entities and buckets", Statements: adminStatements(o)},
	}
	if o.Budget != nil {
		all[0].Statements = append(all[0].Statements, budgetServes()...)
		all[1].Statements = append(all[1].Statements, budgetReads()...)
		all[2].Statements = append(all[2].Statements, budgetAdministers()...)
	}
	keys := [][]string{{"kms:Decrypt"}, {"kms:Decrypt"}, {"kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey"}}
	for i := range all {
		all[i].Statements = append(all[i].Statements, useKey(keys[i]...))
	}
	return all
}

func useKey(actions ...string) Statement {
	return Statement{
		Sid: "UseKey", About: "The tables are encrypted under a key of this account: DynamoDB uses it for the caller.", Actions: actions,
		Resources: []Resource{{Param: paramKey}}, Conditions: []Condition{{stringLike, viaService, []string{"dynamodb.*"}}}, With: paramKey,
	}
}

// within puts leading keys into the namespace.
func within(o Options, keys ...string) []string {
	prefix := schema.NewKeys(o.Namespace).Prefix()
	for i := range keys {
		keys[i] = prefix + keys[i]
	}
	return keys
}

// versionKey is the leading key of the record of the table's version, which is in no
// namespace.
const versionKey = "SYSTEM#"

// withVersion are keys that are read with the record of the table's version.
func withVersion(o Options, keys []string) []string {
	if o.Namespace == "" {
		return keys
	}
	return append(keys, versionKey)
}

func acquireStatements(o Options) []Statement {
	read := withVersion(o, within(o, "ENTITY#*", "PLAN#*", "RESOURCE#*", "SYSTEM#"))
	return []Statement{
		{
			Sid: "ReadLimits", About: "Limits, entities and their buckets.", Actions: actions("BatchGetItem", "GetItem"),
			Resources: []Resource{{Table: limitsTable}}, Conditions: bounded(leadingKeys, read),
		},
		{
			Sid:       "WriteBuckets",
			About:     "An entity's limits and usage have its buckets' partition key: the attributes tell them apart.",
			Actions:   actions("UpdateItem"),
			Resources: []Resource{{Table: limitsTable}},
			Conditions: append(bounded(leadingKeys, within(o, "ENTITY#*")),
				bounded(attributes, schema.BucketAttributes())...),
		},
	}
}

// everythingOf are the leading keys of a namespace, none without one: then nothing is
// bounded.
func everythingOf(o Options) []string {
	if o.Namespace == "" {
		return nil
	}
	return within(o, "*")
}

func readStatements(o Options) []Statement {
	keys := everythingOf(o)
	if keys != nil {
		keys = append(keys, versionKey)
	}
	return []Statement{
		{
			Sid: "ReadItems", About: "Everything that is stored.", Actions: actions("BatchGetItem", "GetItem", "Query"),
			Resources: []Resource{{Table: limitsTable}, {Table: limitsTable, Indexes: true}}, Conditions: bounded(leadingKeys, keys),
		},
		describes(limitsTable),
	}
}

func describes(tables ...string) Statement {
	s := Statement{Sid: "Describe", About: "What the table is like.", Actions: actions("DescribeTable", "DescribeTimeToLive")}
	if tables[0] != limitsTable {
		s.Sid, s.About = "DescribeBudgets", "What the tables are like."
	}
	for _, t := range tables {
		s.Resources = append(s.Resources, Resource{Table: t})
	}
	return s
}

func adminStatements(o Options) []Statement {
	statements := append(readStatements(o), Statement{
		Sid: "ChangeItems", About: "Changes, each with its event.",
		Actions:   actions("BatchWriteItem", "ConditionCheckItem", "DeleteItem", "PutItem", "UpdateItem"),
		Resources: []Resource{{Table: limitsTable}}, Conditions: bounded(leadingKeys, everythingOf(o)),
	})
	if o.Namespace != "" {
		return statements
	}
	return append(statements, Statement{
		Sid: "ChangeTable", About: "Makes the table, migrates it, and purges namespaces.",
		Actions:   actions("CreateTable", "Scan", "UpdateTimeToLive"),
		Resources: []Resource{{Table: limitsTable}},
	})
}

func budgetServes() []Statement {
	return []Statement{
		{
			Sid: "ReadBudgets", About: "Organisations, apps and prices.", Actions: actions("BatchGetItem", "GetItem", "Query"),
			Resources: []Resource{{Table: controlTable}},
		},
		{
			Sid: "RegisterApps", About: "An app that was never configured is listed: an item without a quota.", Actions: actions("UpdateItem"),
			Resources: []Resource{{Table: controlTable}},
			Conditions: append(bounded(leadingKeys, []string{"ORG#*"}),
				bounded(attributes, registeredAttributes)...),
		},
		{
			Sid: "Spend", About: "What was spent, but not what was charged by hand.",
			Actions:    actions("GetItem", "PutItem", "Query", "UpdateItem"),
			Resources:  []Resource{{Table: usageTable}},
			Conditions: []Condition{{noneLike, leadingKeys, []string{"AUDIT#*"}}, {absent, leadingKeys, []string{"false"}}},
		},
	}
}

func budgetReads() []Statement {
	return []Statement{
		{
			Sid: "ReadBudgets", About: "Budgets, and what was spent.", Actions: actions("BatchGetItem", "GetItem", "Query", "Scan"),
			Resources: []Resource{{Table: controlTable}, {Table: usageTable}},
		},
		describes(controlTable, usageTable),
	}
}

func budgetAdministers() []Statement {
	return append(budgetReads(), Statement{
		Sid: "ChangeBudgets", About: "Changes, each with its event, and the tables themselves.",
		Actions:   actions("CreateTable", "DeleteItem", "PutItem", "UpdateItem", "UpdateTimeToLive"),
		Resources: []Resource{{Table: controlTable}, {Table: usageTable}},
	}, Statement{
		Sid: "BesideDeletions", About: "That what is overridden is there, and a deletion under way.", Actions: actions("ConditionCheckItem"),
		Resources: []Resource{{Table: controlTable}},
	})
}

// registeredAttributes are those of the item of an app that was never configured.
var registeredAttributes = []string{"PK", "SK", "cfg_version", "created_at_epoch", "updated_at_epoch"}

// tailID begins the names of the role of what follows the stream.
const tailID = "Tail"

// aggregatorRole is that of the function which adds the stream of the limits to usage. The
// stream brings all namespaces, so it is bound to none.
func aggregatorRole() Role {
	return Role{ID: aggregatorID, About: "Adds the stream of the limits to usage", Function: true, Statements: []Statement{
		readStream("ListStreams"),
		readUsage(),
		writeUsage(),
		useKey("kms:Decrypt"),
	}}
}

// tailRole is that of what follows the stream itself and turns it into usage, for all
// namespaces.
func tailRole() Role {
	return Role{ID: tailID, About: "Follows the stream of the limits, and turns it into usage", Serves: true, Statements: []Statement{
		{Sid: "FindStream", About: "Which stream the table has.", Actions: actions("DescribeTable"), Resources: []Resource{{Table: limitsTable}}},
		readStream(),
		readUsage(),
		writeUsage(),
		{
			Sid: "KeepPlace", About: "How far shards were read, and who reads them.", Actions: actions("PutItem", "UpdateItem"),
			Resources: []Resource{{Table: limitsTable}}, Conditions: bounded(leadingKeys, []string{schema.TailKeys{}.Partition() + "*"}),
		},
		useKey("kms:Decrypt"),
	}}
}

func readUsage() Statement {
	return Statement{
		Sid: "ReadUsage", About: "What is to be summed, and where entities stand.", Actions: actions("BatchGetItem", "GetItem", "Query"),
		Resources: []Resource{{Table: limitsTable}, {Table: limitsTable, Indexes: true}},
	}
}

func writeUsage() Statement {
	return Statement{
		Sid: "WriteUsage", About: "Snapshots and sums: the attributes tell them from limits and buckets.",
		Actions: actions("PutItem", "UpdateItem"), Resources: []Resource{{Table: limitsTable}},
		Conditions: append(bounded(leadingKeys, usageKeys()), bounded(attributes, schema.UsageAttributes())...),
	}
}

// readStream is what the stream is read by: Lambda lists streams besides.
func readStream(besides ...string) Statement {
	return Statement{
		Sid: "ReadStream", About: "What changed.", Actions: actions(append([]string{"DescribeStream", "GetRecords", "GetShardIterator"}, besides...)...),
		Resources: []Resource{{Table: limitsTable, Stream: true}},
	}
}

// usageKeys are the leading keys of usage in all namespaces: neither those of the history of
// changes nor those of namespaces themselves.
func usageKeys() (keys []string) {
	for _, prefix := range []string{"", "*/"} {
		for _, key := range []string{"ENTITY#*", "PLAN#*", "RESOURCE#*", "SYSTEM#"} {
			keys = append(keys, prefix+key)
		}
	}
	return keys
}
