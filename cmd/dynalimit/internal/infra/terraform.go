package infra

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// variables are the names in Terraform of the parameters.
var variables = map[string]string{
	paramKey: "kms_key_arn", paramBoundary: "permissions_boundary_arn", paramTopic: "alarm_topic_arn", paramPrincipal: "trusted_principal_arn",
	paramService: "trusted_service", paramProtection: "deletion_protection", paramFunction: "stream_function_name",
	paramCodeBucket: "aggregator_code_bucket", paramCodeKey: "aggregator_code_key", paramWindow: "aggregator_batching_window",
	paramRetention: "usage_retention_days", paramStream: "limits_stream_arn",
	paramBucket: "archive_bucket", paramPrefix: "archive_prefix", paramArchiveKey: "archive_kms_key_arn",
	paramKeyset: "keyset_secret_arn", paramPriceList: "price_object_arn",
}

func variable(param string) code { return code("var." + variables[param]) }

// snake is an id as Terraform spells it: BudgetControl is budget_control.
func snake(id string) string {
	var b strings.Builder
	for i, r := range id {
		if r >= 'A' && r <= 'Z' && i > 0 {
			b.WriteByte('_')
		}
		b.WriteString(strings.ToLower(string(r)))
	}
	return b.String()
}

func tableVariable(id string) string { return snake(id) + "_table_name" }

func tableARN(id string) string { return snake(id) + "_table_arn" }

// Terraform is the configuration of the deployment, as HCL.
func (m *Model) Terraform() string {
	t := module{m}
	blocks := []block{{Note: m.about() + ".", Head: "terraform", Body: []any{
		field{Key: "required_version", Value: ">= 1.5"},
		block{Head: "required_providers", Body: []any{
			field{Key: "aws", Value: object{{Key: "source", Value: "hashicorp/aws"}, {Key: "version", Value: m.provider()}}},
		}},
	}}}
	blocks = append(blocks, t.variables()...)
	blocks = append(blocks, t.data()...)
	if m.Has(PartTables) {
		for _, table := range m.Tables {
			blocks = append(blocks, t.table(table))
		}
	}
	for _, r := range m.Roles {
		blocks = append(blocks, t.policy(r), t.role(r), attachment(r))
	}
	for _, f := range m.functions() {
		blocks = append(blocks, t.resourcesOf(f)...)
	}
	for _, a := range m.Alarms {
		blocks = append(blocks, t.alarm(a))
	}
	blocks = append(blocks, t.outputs()...)
	var w hclWriter
	for i, b := range blocks {
		if i > 0 {
			w.WriteString("\n")
		}
		w.block(b, 0)
	}
	return w.String()
}

// module writes a model as Terraform.
type module struct{ *Model }

func (t module) variables() []block {
	var blocks []block
	add := func(name, kind, about string, value any) {
		body := []any{field{Key: "description", Value: about}, field{Key: "type", Value: code(kind)}}
		if value != nil {
			body = append(body, field{Key: "default", Value: value})
		}
		blocks = append(blocks, block{Head: "variable " + hclText(name), Body: body})
	}
	for _, table := range t.Tables {
		add(tableVariable(table.ID), "string", "Name of the table: "+table.About, *table.Input.TableName)
	}
	for _, p := range parameters() {
		switch {
		case !p.used(t.Model):
		case p.name == paramProtection:
			add(variables[p.name], "bool", p.about, true)
		case p.required:
			add(variables[p.name], "string", p.about, nil)
		case p.name == paramPrefix:
			add(variables[p.name], "string", p.about, p.value)
		case p.value != "":
			add(variables[p.name], "number", p.about, code(p.value))
		default:
			add(variables[p.name], "string", strings.ReplaceAll(p.about, "; empty for", "; null for"), code("null"))
		}
	}
	tags := any(code("{}"))
	if len(t.Tags) > 0 {
		var o object
		for _, key := range t.tagKeys() {
			o = append(o, field{Key: key, Value: t.Tags[key]})
		}
		tags = o
	}
	add("tags", "map(string)", "Tags of everything that can have some", tags)
	return blocks
}

// data are what ARNs are made of: they name the partition, so that they are right in each.
func (t module) data() []block {
	if len(t.Roles) == 0 {
		return nil
	}
	var arns []any
	for _, table := range t.Tables {
		arns = append(arns, field{
			Key:   tableARN(table.ID),
			Value: code(`"arn:${data.aws_partition.current.partition}:dynamodb:${data.aws_region.current.id}:${data.aws_caller_identity.current.account_id}:table/${var.` + tableVariable(table.ID) + `}"`),
		})
	}
	return []block{
		{Head: `data "aws_partition" "current"`},
		{Head: `data "aws_region" "current"`},
		{Head: `data "aws_caller_identity" "current"`},
		{Head: "locals", Body: arns},
	}
}

func (t module) table(table Table) block {
	in := table.Input
	hash, sort := keyNames(in.KeySchema)
	body := []any{
		field{Key: "name", Value: code("var." + tableVariable(table.ID))},
		field{Key: "billing_mode", Value: string(in.BillingMode)},
		field{Key: "hash_key", Value: hash},
		field{Key: "range_key", Value: sort},
		field{Key: "deletion_protection_enabled", Value: variable(paramProtection)},
		field{Key: "stream_enabled", Value: true},
		field{Key: "stream_view_type", Value: string(in.StreamSpecification.StreamViewType)},
		field{Key: "tags", Value: code("var.tags")},
	}
	for _, d := range in.AttributeDefinitions {
		body = append(body, block{Head: "attribute", Body: []any{
			field{Key: "name", Value: *d.AttributeName}, field{Key: "type", Value: string(d.AttributeType)},
		}})
	}
	for _, x := range in.GlobalSecondaryIndexes {
		body = append(body, indexBlock(x))
	}
	body = append(
		body,
		block{Head: "ttl", Body: []any{field{Key: "attribute_name", Value: table.TTL}, field{Key: "enabled", Value: true}}},
		block{Head: "point_in_time_recovery", Body: []any{field{Key: "enabled", Value: true}}},
		block{Head: "server_side_encryption", Body: []any{
			field{Key: "enabled", Value: code("var.kms_key_arn != null")}, field{Key: "kms_key_arn", Value: variable(paramKey)},
		}},
		block{Head: "lifecycle", Body: []any{field{Key: "prevent_destroy", Value: true}}},
	)
	return block{Note: table.About + ".", Head: `resource "aws_dynamodb_table" ` + hclText(snake(table.ID)), Body: body}
}

func keyNames(keys []types.KeySchemaElement) (hash, sort string) {
	return *keys[0].AttributeName, *keys[1].AttributeName
}

func indexBlock(x types.GlobalSecondaryIndex) block {
	hash, sort := keyNames(x.KeySchema)
	body := []any{
		field{Key: "name", Value: *x.IndexName},
		field{Key: "hash_key", Value: hash},
		field{Key: "range_key", Value: sort},
		field{Key: "projection_type", Value: string(x.Projection.ProjectionType)},
	}
	if attributes := x.Projection.NonKeyAttributes; len(attributes) > 0 {
		body = append(body, field{Key: "non_key_attributes", Value: texts(attributes)})
	}
	return block{Head: "global_secondary_index", Body: body}
}
