package infra

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Names of the template's conditions and parameters.
const (
	paramKey        = "KmsKeyArn"
	paramBoundary   = "PermissionsBoundaryArn"
	paramTopic      = "AlarmTopicArn"
	paramPrincipal  = "TrustedPrincipalArn"
	paramService    = "TrustedService"
	paramProtection = "DeletionProtection"
	paramFunction   = "StreamFunctionName"

	noValue = code("!Ref AWS::NoValue")
)

func ref(name string) code { return code("!Ref " + name) }

func sub(text string) code { return code(`!Sub "` + text + `"`) }

func has(param string) string { return "Has" + param }

// choose is yes under a condition, no otherwise.
func choose(condition string, yes, no any) object {
	return object{{Key: "Fn::If", Value: list{condition, yes, no}}}
}

// CloudFormation is the template of the deployment, as YAML.
func (m *Model) CloudFormation() string {
	t := template{m}
	body := object{
		{Key: "AWSTemplateFormatVersion", Value: "2010-09-09"},
		{Key: "Description", Value: m.about()},
		{Key: "Parameters", Value: t.parameters()},
	}
	if conditions := t.conditions(); len(conditions) > 0 {
		body = append(body, field{Key: "Conditions", Value: conditions})
	}
	body = append(body, field{Key: "Resources", Value: t.resources()}, field{Key: "Outputs", Value: t.outputs()})
	var w yamlWriter
	for i, f := range body {
		if i > 0 {
			w.WriteString("\n")
		}
		w.mapping(object{f}, 0, "")
	}
	return w.String()
}

// about says what is deployed.
func (m *Model) about() string {
	var parts []string
	for _, p := range append(Parts(), onlyAsked...) {
		if m.Has(p) {
			parts = append(parts, string(p))
		}
	}
	s := "Limits of LLM calls in DynamoDB (dynalimit): " + strings.Join(parts, ", ")
	if m.Namespace != "" {
		s += "; roles of namespace " + m.Namespace
	}
	return s
}

// template writes a model as CloudFormation.
type template struct{ *Model }

func tableParam(id string) string { return id + "TableName" }

func (t template) parameters() object {
	var o object
	for _, table := range t.Tables {
		o = append(o, field{Key: tableParam(table.ID), Value: object{
			{Key: "Type", Value: "String"},
			{Key: "Default", Value: *table.Input.TableName},
			{Key: "Description", Value: table.About},
			{Key: "AllowedPattern", Value: "^[a-zA-Z0-9_.-]{3,255}$"},
		}})
	}
	for _, p := range parameters() {
		if !p.used(t.Model) {
			continue
		}
		fields := object{{Key: "Type", Value: "String"}}
		if !p.required {
			fields = append(fields, field{Key: "Default", Value: p.value})
		}
		fields = append(fields, field{Key: "Description", Value: p.about})
		if p.pattern != "" {
			fields = append(fields, field{Key: "AllowedPattern", Value: p.pattern})
		}
		if p.name == paramProtection {
			fields = append(fields, field{Key: "AllowedValues", Value: list{"true", "false"}})
		}
		o = append(o, field{Key: p.name, Value: fields})
	}
	return o
}

func (t template) conditions() object {
	var o object
	for _, p := range parameters() {
		if p.used(t.Model) && p.value == "" && !p.required {
			o = append(o, field{Key: has(p.name), Value: object{{Key: "Fn::Not", Value: list{
				object{{Key: "Fn::Equals", Value: list{ref(p.name), ""}}},
			}}}})
		}
	}
	return o
}

func (t template) resources() object {
	var o object
	if t.Has(PartTables) {
		for _, table := range t.Tables {
			o = append(o, t.table(table))
		}
	}
	for _, r := range t.Roles {
		o = append(o, t.policy(r), t.role(r))
	}
	for _, f := range t.functions() {
		o = append(o, t.resourcesOf(f)...)
	}
	for _, a := range t.Alarms {
		o = append(o, t.alarm(a))
	}
	return o
}

func (t template) table(table Table) field {
	in := table.Input
	properties := object{
		{Key: "TableName", Value: ref(tableParam(table.ID))},
		{Key: "BillingMode", Value: string(in.BillingMode)},
		{Key: "DeletionProtectionEnabled", Value: ref(paramProtection)},
		{Key: "AttributeDefinitions", Value: cfnAttributes(in.AttributeDefinitions)},
		{Key: "KeySchema", Value: cfnKeys(in.KeySchema)},
	}
	if len(in.GlobalSecondaryIndexes) > 0 {
		properties = append(properties, field{Key: "GlobalSecondaryIndexes", Value: cfnIndexes(in.GlobalSecondaryIndexes)})
	}
	properties = append(
		properties,
		field{Key: "StreamSpecification", Value: object{{Key: "StreamViewType", Value: string(in.StreamSpecification.StreamViewType)}}},
		field{Key: "TimeToLiveSpecification", Value: object{{Key: "AttributeName", Value: table.TTL}, {Key: "Enabled", Value: true}}},
		field{Key: "PointInTimeRecoverySpecification", Value: object{{Key: "PointInTimeRecoveryEnabled", Value: true}}},
		field{Key: "SSESpecification", Value: choose(has(paramKey), object{
			{Key: "SSEEnabled", Value: true}, {Key: "SSEType", Value: "KMS"}, {Key: "KMSMasterKeyId", Value: ref(paramKey)},
		}, noValue)},
	)
	return field{Key: table.ID + "Table", Note: table.About + ". It stays when the stack goes.", Value: object{
		{Key: "Type", Value: "AWS::DynamoDB::Table"},
		{Key: "DeletionPolicy", Value: "Retain"},
		{Key: "UpdateReplacePolicy", Value: "Retain"},
		{Key: "Properties", Value: t.tagged(properties)},
	}}
}

// tagged are properties with the tags.
func (t template) tagged(properties object) object {
	var tags list
	for _, key := range t.tagKeys() {
		tags = append(tags, object{{Key: "Key", Value: key}, {Key: "Value", Value: t.Tags[key]}})
	}
	if len(tags) == 0 {
		return properties
	}
	return append(properties, field{Key: "Tags", Value: tags})
}

func cfnAttributes(definitions []types.AttributeDefinition) list {
	var l list
	for _, d := range definitions {
		l = append(l, object{{Key: "AttributeName", Value: *d.AttributeName}, {Key: "AttributeType", Value: string(d.AttributeType)}})
	}
	return l
}

func cfnKeys(keys []types.KeySchemaElement) list {
	var l list
	for _, k := range keys {
		l = append(l, object{{Key: "AttributeName", Value: *k.AttributeName}, {Key: "KeyType", Value: string(k.KeyType)}})
	}
	return l
}

func cfnIndexes(indexes []types.GlobalSecondaryIndex) list {
	var l list
	for _, x := range indexes {
		projection := object{{Key: "ProjectionType", Value: string(x.Projection.ProjectionType)}}
		if len(x.Projection.NonKeyAttributes) > 0 {
			projection = append(projection, field{Key: "NonKeyAttributes", Value: texts(x.Projection.NonKeyAttributes)})
		}
		l = append(l, object{
			{Key: "IndexName", Value: *x.IndexName},
			{Key: "KeySchema", Value: cfnKeys(x.KeySchema)},
			{Key: "Projection", Value: projection},
		})
	}
	return l
}
