package infra

import (
	"strings"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// The role of the service that has budgets over HTTP.

const (
	paramKeyset    = "KeysetSecretArn"
	paramPriceList = "PriceObjectArn"

	keeperID = "Keeper"
	// keeperLease is the lease under which one of several sweeps; its name is the leading key.
	keeperLease = "keeper-sweep"
)

func keeperParameters() []parameter {
	only := []Part{partKeeper}
	return []parameter{
		{paramKeyset, "", "ARN of the secret in Secrets Manager that has the keeper's keys; empty for keys from elsewhere", `^(arn:[^*?]+:secretsmanager:[^*?]+:secret:[^*?]+)?$`, only, false},
		{paramPriceList, "", "ARN of the object in S3 that is the keeper's list of prices; empty for one from elsewhere", `^(arn:[^*?]+:s3:::[^*?]+/[^*?]+)?$`, only, false},
	}
}

// keeperRole is that of `dynalimit keeper serve`: what its routes, its sweeps, its list of
// prices and its throttle of logins ask. It makes no table, and no provisioning key: who
// breaks into it cannot give himself one that outlives it.
func keeperRole(o Options) Role {
	limits := bounded(leadingKeys, withVersion(o, within(o, "ENTITY#*", "RESOURCE#*", "SYSTEM#")))
	lease := Statement{
		Sid: "SweepAlone", About: "The lease of the one process that sweeps.", Actions: actions("GetItem", "PutItem", "UpdateItem"),
		Resources: []Resource{{Table: limitsTable}}, Conditions: bounded(leadingKeys, within(o, strings.ToUpper(keeperLease)+"#")),
	}
	role := Role{ID: keeperID, About: "Serves budgets over HTTP", Serves: true, Statements: []Statement{
		{
			Sid: "ReadBudgets", About: "Organisations, prices, credentials, and what was spent.",
			Actions: actions("BatchGetItem", "GetItem", "Query", "Scan"), Resources: []Resource{{Table: controlTable}, {Table: usageTable}},
		},
		{
			Sid: "Configure", About: "Organisations, apps, prices and credentials, each with its event; no provisioning keys.", Actions: actions("PutItem"),
			Resources: []Resource{{Table: controlTable}}, Conditions: bounded(leadingKeys, configuredKeys()),
		},
		{
			Sid: "Amend", About: "What is there of them, but neither prices nor what was revoked, nor the history of changes.", Actions: actions("UpdateItem"),
			Resources: []Resource{{Table: controlTable}}, Conditions: bounded(leadingKeys, []string{"CLIENT#*", "ORG#*", "PROBE#*", "RETRIEVAL#*"}),
		},
		{
			Sid: "EndBudgets", About: "Overrides, and what models a list had.", Actions: actions("DeleteItem"),
			Resources: []Resource{{Table: controlTable}}, Conditions: bounded(leadingKeys, []string{"ORG#*", "PRICELIST#*"}),
		},
		{
			Sid: "Check", About: "That what is overridden is there, and that a deletion still runs.", Actions: actions("ConditionCheckItem"),
			Resources: []Resource{{Table: controlTable}}, Conditions: bounded(leadingKeys, []string{"ORG#*"}),
		},
		{
			Sid: "Spend", About: "What was spent, and what was charged by hand.", Actions: actions("PutItem", "UpdateItem"),
			Resources: []Resource{{Table: usageTable}},
		},
		{
			Sid: "ReadLimits", About: "Limits and buckets of failed logins.", Actions: actions("BatchGetItem", "GetItem"),
			Resources: []Resource{{Table: limitsTable}}, Conditions: limits,
		},
		{
			Sid: "CountLogins", About: "Buckets alone, by their attributes.", Actions: actions("UpdateItem"), Resources: []Resource{{Table: limitsTable}},
			Conditions: append(bounded(leadingKeys, within(o, "ENTITY#*")), bounded(attributes, schema.BucketAttributes())...),
		},
		lease,
		useKey("kms:Decrypt"),
		{
			Sid: "ReadKeys", About: "The one secret that has the keys.", Actions: []string{"secretsmanager:GetSecretValue"},
			Resources: []Resource{{Param: paramKeyset}}, With: paramKeyset,
		},
		{
			Sid: "ReadPrices", About: "The one object that is the list of prices.", Actions: []string{"s3:GetObject"},
			Resources: []Resource{{Param: paramPriceList}}, With: paramPriceList,
		},
	}}
	if o.Namespace != "" {
		role.Statements = append(role.Statements, Statement{
			Sid: "InNamespace", About: "That the namespace is there still.", Actions: actions("ConditionCheckItem"), Resources: []Resource{{Table: limitsTable}},
			Conditions: bounded(leadingKeys, within(o, "SYSTEM#")),
		})
	}
	return role
}

// configuredKeys are the leading keys of what a keeper puts into the control table.
func configuredKeys() []string {
	return []string{"AUDIT#*", "CLIENT#*", "ORG#*", "PRICE#*", "PRICELIST#*", "RETRIEVAL#*", "REVOKED#*"}
}
