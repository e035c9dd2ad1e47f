package infra

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

const key = "arn:aws:kms:eu-central-1:123456789012:key/1"

// places are where templates are resolved: each partition, with Amazon's key and another.
var places = []Place{
	{Partition: "aws", Region: "eu-central-1", Account: "123456789012", Bucket: "kept", Prefix: "limits/"},
	{Partition: "aws", Region: "eu-central-1", Account: "123456789012", Key: key, Bucket: "kept", Prefix: "a/b/", ArchiveKey: key + "-2", Keyset: keysetARN, PriceList: priceListARN},
	{Partition: "aws-cn", Region: "cn-north-1", Account: "123456789012", Bucket: "kept", Prefix: "limits/", ArchiveKey: key},
	{Partition: "aws-us-gov", Region: "us-gov-west-1", Account: "123456789012", Key: strings.Replace(key, "aws", "aws-us-gov", 1), Bucket: "kept", Prefix: "limits/"},
}

// stack resolves a template as CloudFormation does.
type stack struct {
	*testing.T
	values     map[string]string
	conditions map[string]bool
}

// resolveStack is a template with its parameters put in.
func resolveStack(t *testing.T, text string, at Place, parameters map[string]string) map[string]any {
	t.Helper()
	file, err := parser.ParseBytes([]byte(text), 0)
	require.NoError(t, err)
	s := stack{t, map[string]string{"AWS::Partition": at.Partition, "AWS::Region": at.Region, "AWS::AccountId": at.Account}, map[string]bool{}}
	root := s.value(file.Docs[0].Body, "Parameters").(map[string]any)
	for name, p := range root["Parameters"].(map[string]any) {
		s.values[name], _ = p.(map[string]any)["Default"].(string)
	}
	s.values[paramKey] = at.Key
	s.values[paramKeyset], s.values[paramPriceList] = at.Keyset, at.PriceList
	s.values[paramBucket], s.values[paramPrefix], s.values[paramArchiveKey] = at.Bucket, at.Prefix, at.ArchiveKey
	maps.Copy(s.values, parameters)
	root = s.value(file.Docs[0].Body, "Parameters", "Conditions").(map[string]any)
	conditions, _ := root["Conditions"].(map[string]any)
	for name, c := range conditions {
		s.conditions[name] = c.(bool)
	}
	return s.value(file.Docs[0].Body).(map[string]any)
}

// nothing is AWS::NoValue.
type nothing struct{}

// value resolves a node; of a template only the sections that are named, all if none is.
func (s stack) value(node ast.Node, sections ...string) any {
	switch n := node.(type) {
	case *ast.TagNode:
		return s.tagged(n)
	case *ast.MappingValueNode:
		return s.mapping([]*ast.MappingValueNode{n}, sections)
	case *ast.MappingNode:
		return s.mapping(n.Values, sections)
	case *ast.SequenceNode:
		var l []any
		for _, v := range n.Values {
			if v := s.value(v); v != (nothing{}) {
				l = append(l, v)
			}
		}
		return l
	case ast.ScalarNode:
		return n.GetValue()
	default:
		require.Fail(s, "a node that is not known", "%T", node)
		return nil
	}
}

func (s stack) tagged(n *ast.TagNode) any {
	text := n.Value.(ast.ScalarNode).GetValue().(string)
	switch n.Start.Value {
	case "!Ref":
		if text == "AWS::NoValue" {
			return nothing{}
		}
		if v, ok := s.values[text]; ok {
			return v
		}
		return "ref:" + text
	case "!Sub":
		for name, v := range s.values {
			text = strings.ReplaceAll(text, "${"+name+"}", v)
		}
		require.NotContains(s, text, "${")
		return text
	default:
		return n.Start.Value + " " + text
	}
}

func (s stack) mapping(entries []*ast.MappingValueNode, sections []string) any {
	m := map[string]any{}
	for _, e := range entries {
		name := e.Key.(ast.ScalarNode).GetValue().(string)
		if len(sections) > 0 && !strings.Contains(" "+strings.Join(sections, " ")+" ", " "+name+" ") {
			continue
		}
		v := s.value(e.Value)
		switch name {
		case "Fn::If":
			if l := s.branches(e.Value); s.conditions[l[0].(string)] {
				return l[1]
			}
			return s.branches(e.Value)[2]
		case "Fn::Not":
			return !v.([]any)[0].(bool)
		case "Fn::Equals":
			return v.([]any)[0] == v.([]any)[1]
		}
		if v != (nothing{}) {
			m[name] = v
		}
	}
	return m
}

// branches are the three parts of an If, of which one may be nothing.
func (s stack) branches(n ast.Node) []any {
	var l []any
	for _, v := range n.(*ast.SequenceNode).Values {
		l = append(l, s.value(v))
	}
	return l
}

// as reads a resolved value as a type of its own.
func as[T any](t *testing.T, v any) (out T) {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &out), "%s", text)
	return out
}

// configuration resolves a Terraform configuration as Terraform does.
type configuration struct {
	*testing.T
	body *hclsyntax.Body
	ctx  *hcl.EvalContext
}

func resolveTerraform(t *testing.T, text string, at Place, variables map[string]cty.Value) configuration {
	t.Helper()
	file, diagnostics := hclsyntax.ParseConfig([]byte(text), "main.tf", hcl.InitialPos)
	require.False(t, diagnostics.HasErrors(), diagnostics.Error())
	c := configuration{t, file.Body.(*hclsyntax.Body), &hcl.EvalContext{
		Functions: map[string]function.Function{"jsonencode": stdlib.JSONEncodeFunc, "concat": stdlib.ConcatFunc, "coalesce": stdlib.CoalesceFunc},
		Variables: map[string]cty.Value{"string": cty.StringVal("string"), "bool": cty.StringVal("bool")},
	}}
	vars := map[string]cty.Value{}
	for _, b := range c.body.Blocks {
		if b.Type == "variable" {
			vars[b.Labels[0]] = cty.StringVal("")
			if a := b.Body.Attributes["default"]; a != nil {
				vars[b.Labels[0]] = c.eval(a.Expr)
			}
		}
	}
	if at.Key != "" {
		vars["kms_key_arn"] = cty.StringVal(at.Key)
	}
	if at.ArchiveKey != "" {
		vars["archive_kms_key_arn"] = cty.StringVal(at.ArchiveKey)
	}
	for name, arn := range map[string]string{"keyset_secret_arn": at.Keyset, "price_object_arn": at.PriceList} {
		if arn != "" {
			vars[name] = cty.StringVal(arn)
		}
	}
	vars["archive_bucket"], vars["archive_prefix"] = cty.StringVal(at.Bucket), cty.StringVal(at.Prefix)
	maps.Copy(vars, variables)
	one := func(name, value string) cty.Value {
		return cty.ObjectVal(map[string]cty.Value{"current": cty.ObjectVal(map[string]cty.Value{name: cty.StringVal(value)})})
	}
	c.ctx.Variables["var"] = cty.ObjectVal(vars)
	c.ctx.Variables["data"] = cty.ObjectVal(map[string]cty.Value{
		"aws_partition": one("partition", at.Partition), "aws_region": one("id", at.Region), "aws_caller_identity": one("account_id", at.Account),
	})
	for kind, made := range c.made() {
		c.ctx.Variables[kind] = cty.ObjectVal(made)
	}
	locals := map[string]cty.Value{}
	for _, b := range c.body.Blocks {
		if b.Type == "locals" {
			for name, a := range b.Body.Attributes {
				locals[name] = c.eval(a.Expr)
			}
		}
	}
	c.ctx.Variables["local"] = cty.ObjectVal(locals)
	return c
}

// made are the resources by their kinds. What AWS would tell of each is its own name.
func (c configuration) made() map[string]map[string]cty.Value {
	all := map[string]map[string]cty.Value{}
	for _, b := range c.body.Blocks {
		if b.Type != "resource" {
			continue
		}
		told := map[string]cty.Value{}
		for _, attribute := range []string{"arn", "id", "name", "function_name", "stream_arn"} {
			told[attribute] = cty.StringVal(strings.Join(append(b.Labels, attribute), "."))
		}
		if all[b.Labels[0]] == nil {
			all[b.Labels[0]] = map[string]cty.Value{}
		}
		all[b.Labels[0]][b.Labels[1]] = cty.ObjectVal(told)
	}
	return all
}

func (c configuration) eval(e hclsyntax.Expression) cty.Value {
	c.Helper()
	v, diagnostics := e.Value(c.ctx)
	require.False(c, diagnostics.HasErrors(), diagnostics.Error())
	return v
}

// resource is the body of a resource.
func (c configuration) resource(kind, name string) *hclsyntax.Body {
	c.Helper()
	for _, b := range c.body.Blocks {
		if b.Type == "resource" && b.Labels[0] == kind && b.Labels[1] == name {
			return b.Body
		}
	}
	require.Fail(c, "no such resource", "%s.%s", kind, name)
	return nil
}

// plain is a body as a tree: its attributes, and its blocks as lists by their types.
func (c configuration) plain(body *hclsyntax.Body) map[string]any {
	c.Helper()
	m := map[string]any{}
	for name, a := range body.Attributes {
		v := c.eval(a.Expr)
		text, err := ctyjson.Marshal(v, v.Type())
		require.NoError(c, err)
		var value any
		require.NoError(c, json.Unmarshal(text, &value))
		m[name] = value
	}
	for _, b := range body.Blocks {
		l, _ := m[b.Type].([]any)
		m[b.Type] = append(l, c.plain(b.Body))
	}
	return m
}

// deployedTable is what both templates say of a table.
type deployedTable struct {
	TableName                 string
	BillingMode               types.BillingMode
	DeletionProtectionEnabled any
	AttributeDefinitions      []types.AttributeDefinition
	KeySchema                 []types.KeySchemaElement
	GlobalSecondaryIndexes    []types.GlobalSecondaryIndex
	StreamSpecification       types.StreamSpecification
	TimeToLiveSpecification   struct {
		AttributeName string
		Enabled       bool
	}
	PointInTimeRecoverySpecification struct{ PointInTimeRecoveryEnabled bool }
	SSESpecification                 *struct {
		SSEEnabled bool
		Key        string `json:"KMSMasterKeyId"`
	}
	Tags any
}

// ofTerraform is a table of a configuration in the words of CloudFormation.
func ofTerraform(t *testing.T, m map[string]any) deployedTable {
	t.Helper()
	keys := func(m map[string]any) []any {
		return []any{
			map[string]any{"AttributeName": m["hash_key"], "KeyType": "HASH"}, map[string]any{"AttributeName": m["range_key"], "KeyType": "RANGE"},
		}
	}
	first := func(name string) map[string]any { return m[name].([]any)[0].(map[string]any) }
	var definitions, indexes []any
	for _, a := range m["attribute"].([]any) {
		a := a.(map[string]any)
		definitions = append(definitions, map[string]any{"AttributeName": a["name"], "AttributeType": a["type"]})
	}
	list, _ := m["global_secondary_index"].([]any)
	for _, x := range list {
		x := x.(map[string]any)
		indexes = append(indexes, map[string]any{
			"IndexName": x["name"], "KeySchema": keys(x),
			"Projection": map[string]any{"ProjectionType": x["projection_type"], "NonKeyAttributes": x["non_key_attributes"]},
		})
	}
	require.Equal(t, true, m["stream_enabled"])
	table := map[string]any{
		"TableName": m["name"], "BillingMode": m["billing_mode"], "DeletionProtectionEnabled": "true",
		"AttributeDefinitions": definitions, "KeySchema": keys(m), "GlobalSecondaryIndexes": indexes,
		"StreamSpecification":              map[string]any{"StreamViewType": m["stream_view_type"]},
		"TimeToLiveSpecification":          map[string]any{"AttributeName": first("ttl")["attribute_name"], "Enabled": first("ttl")["enabled"]},
		"PointInTimeRecoverySpecification": map[string]any{"PointInTimeRecoveryEnabled": first("point_in_time_recovery")["enabled"]},
	}
	require.Equal(t, true, m["deletion_protection_enabled"])
	require.Equal(t, true, first("lifecycle")["prevent_destroy"])
	if sse := first("server_side_encryption"); sse["enabled"].(bool) {
		table["SSESpecification"] = map[string]any{"SSEEnabled": true, "KMSMasterKeyId": sse["kms_key_arn"]}
	}
	return as[deployedTable](t, table)
}

// TestTablesAreThoseOfTheLibrary: both templates make the tables that the library makes,
// with what a deployment adds, and they agree.
func TestTablesAreThoseOfTheLibrary(t *testing.T) {
	m := modelOf(t, options["everything"])
	for _, at := range places {
		resources := resolveStack(t, m.CloudFormation(), at, nil)["Resources"].(map[string]any)
		c := resolveTerraform(t, m.Terraform(), at, nil)
		for _, table := range m.Tables {
			r := resources[table.ID+"Table"].(map[string]any)
			assert.Equal(t, []any{"Retain", "Retain"}, []any{r["DeletionPolicy"], r["UpdateReplacePolicy"]})
			got := as[deployedTable](t, r["Properties"])
			want := as[deployedTable](t, table.Input)
			want.DeletionProtectionEnabled, want.StreamSpecification.StreamEnabled = "true", nil
			want.TimeToLiveSpecification.AttributeName, want.TimeToLiveSpecification.Enabled = table.TTL, true
			want.PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled = true
			want.SSESpecification = got.SSESpecification
			if at.Key == "" {
				assert.Nil(t, got.SSESpecification)
			} else {
				assert.Equal(t, at.Key, got.SSESpecification.Key)
			}
			assert.Equal(t, []any{map[string]any{"Key": "cost-center", "Value": "42: LLM"}, map[string]any{"Key": "team", "Value": "search"}}, got.Tags)
			got.Tags = nil
			assert.Equal(t, want, got, table.ID)
			assert.Equal(t, types.StreamViewTypeNewAndOldImages, got.StreamSpecification.StreamViewType)
			assert.Equal(t, got, ofTerraform(t, c.plain(c.resource("aws_dynamodb_table", snake(table.ID)))), "Terraform: %s", table.ID)
		}
	}
}

// TestPoliciesOfBothTemplatesAreTheSame: in every partition both templates make the policies
// that the tests of roles judge, and roles with a boundary that trust whom they are to.
func TestPoliciesOfBothTemplatesAreTheSame(t *testing.T) {
	for _, name := range []string{"limits", "everything", "namespace", "aggregator", "archive", "tail"} {
		m := modelOf(t, options[name])
		for _, at := range places {
			resources := resolveStack(t, m.CloudFormation(), at, nil)["Resources"].(map[string]any)
			c := resolveTerraform(t, m.Terraform(), at, nil)
			for _, role := range m.Roles {
				want := readPolicy(t, m.Policy(role, at).JSON())
				properties := resources[role.ID+"Policy"].(map[string]any)["Properties"].(map[string]any)
				assert.Equal(t, want, as[iamPolicy](t, properties["PolicyDocument"]), "CloudFormation: %s", role.ID)
				assert.Equal(t, want, readPolicy(t, c.plain(c.resource("aws_iam_policy", snake(role.ID)))["policy"].(string)), "Terraform: %s", role.ID)
				assert.Equal(t, at.Key != "", strings.Contains(m.Policy(role, at).JSON(), `"kms:Decrypt"`))
			}
		}
	}
}

// TestRolesTrustWhomTheyAreTo: the account by default, a principal or, to serve calls, a
// service; with a boundary where one is given.
func TestRolesTrustWhomTheyAreTo(t *testing.T) {
	const someone, boundary, service = "arn:aws:iam::210987654321:role/ci", "arn:aws:iam::123456789012:policy/edge", "ecs-tasks.amazonaws.com"
	m := modelOf(t, options["limits"])
	text, hclText := m.CloudFormation(), m.Terraform()
	for _, test := range []struct {
		principal, service, boundary string
		acquire, admin               map[string]any
	}{
		{"", "", "", map[string]any{"AWS": "arn:aws-cn:iam::123456789012:root"}, map[string]any{"AWS": "arn:aws-cn:iam::123456789012:root"}},
		{someone, "", boundary, map[string]any{"AWS": someone}, map[string]any{"AWS": someone}},
		{someone, service, "", map[string]any{"Service": service}, map[string]any{"AWS": someone}},
	} {
		resources := resolveStack(t, text, places[2], map[string]string{paramPrincipal: test.principal, paramService: test.service, paramBoundary: test.boundary})["Resources"].(map[string]any)
		vars := map[string]cty.Value{}
		for name, v := range map[string]string{"trusted_principal_arn": test.principal, "trusted_service": test.service, "permissions_boundary_arn": test.boundary} {
			if v != "" {
				vars[name] = cty.StringVal(v)
			}
		}
		c := resolveTerraform(t, hclText, places[2], vars)
		for id, want := range map[string]map[string]any{"Acquire": test.acquire, "Admin": test.admin} {
			role := resources[id+"Role"].(map[string]any)["Properties"].(map[string]any)
			trust := role["AssumeRolePolicyDocument"].(map[string]any)["Statement"].([]any)[0].(map[string]any)
			assert.Equal(t, want, trust["Principal"])
			assert.Equal(t, []any{"Allow", "sts:AssumeRole"}, []any{trust["Effect"], trust["Action"]})
			assert.Equal(t, test.boundary != "", role["PermissionsBoundary"] == boundary)
			body := c.plain(&hclsyntax.Body{Attributes: c.resource("aws_iam_role", snake(id)).Attributes})
			var document struct{ Statement []map[string]any }
			require.NoError(t, json.Unmarshal([]byte(body["assume_role_policy"].(string)), &document))
			assert.Equal(t, trust, document.Statement[0])
			assert.Equal(t, test.boundary != "", body["permissions_boundary"] == boundary)
		}
	}
}
