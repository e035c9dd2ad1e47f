package infra

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// configuration resolves the configuration as Terraform does.
type configuration struct {
	*testing.T
	body *hclsyntax.Body
	ctx  *hcl.EvalContext
}

// configured is the configuration with values of parameters.
func configured(t *testing.T, text string, at Place, parameters map[string]string) configuration {
	t.Helper()
	file, diagnostics := hclsyntax.ParseConfig([]byte(text), "main.tf", hcl.InitialPos)
	require.False(t, diagnostics.HasErrors(), diagnostics.Error())
	one := func(name, value string) cty.Value {
		return cty.ObjectVal(map[string]cty.Value{"current": cty.ObjectVal(map[string]cty.Value{name: cty.StringVal(value)})})
	}
	c := configuration{t, file.Body.(*hclsyntax.Body), &hcl.EvalContext{
		Functions: map[string]function.Function{
			"jsonencode": stdlib.JSONEncodeFunc, "concat": stdlib.ConcatFunc, "merge": stdlib.MergeFunc, "distinct": stdlib.DistinctFunc, "flatten": stdlib.FlattenFunc,
			"keys": stdlib.KeysFunc, "values": stdlib.ValuesFunc, "split": stdlib.SplitFunc, "regex": stdlib.RegexFunc, "tostring": stdlib.MakeToFunc(cty.String),
			"try": tryfunc.TryFunc, "can": tryfunc.CanFunc,
		},
		Variables: map[string]cty.Value{"data": cty.ObjectVal(map[string]cty.Value{
			"aws_partition": one("partition", at.Partition), "aws_region": one("id", at.Region), "aws_caller_identity": one("account_id", at.Account),
		})},
	}}
	variables := map[string]cty.Value{}
	for _, b := range c.blocks("variable") {
		variables[b.Labels[0]] = c.eval(b.Body.Attributes["default"].Expr, c.ctx)
	}
	for _, given := range []map[string]string{at.parameters(), parameters} {
		for name, value := range given {
			require.Contains(t, variables, variableName(name))
			v, err := convert.Convert(cty.StringVal(value), variables[variableName(name)].Type())
			require.NoError(t, err)
			variables[variableName(name)] = v
		}
	}
	c.ctx.Variables["var"] = cty.ObjectVal(variables)
	c.setComputed()
	c.locals()
	return c
}

func (c configuration) blocks(kind string) (all []*hclsyntax.Block) {
	for _, b := range c.body.Blocks {
		if b.Type == kind {
			all = append(all, b)
		}
	}
	return all
}

// setComputed makes known what AWS would tell of each resource: its own name.
func (c configuration) setComputed() {
	kinds := map[string]map[string]cty.Value{}
	for _, b := range c.blocks("resource") {
		kind, name := b.Labels[0], b.Labels[1]
		told := func(id string) cty.Value {
			attributes := map[string]cty.Value{}
			for _, a := range []string{"arn", "id", "name", "function_name", "stream_arn"} {
				attributes[a] = cty.StringVal(strings.Join([]string{kind, name, id, a}, "."))
			}
			return cty.ObjectVal(attributes)
		}
		if kinds[kind] == nil {
			kinds[kind] = map[string]cty.Value{}
		}
		instances := map[string]cty.Value{}
		for _, id := range []string{"acquire", "read", "admin", "usage", "tail", "keeper", "aggregator", "archive"} {
			instances[id] = told(id)
		}
		kinds[kind][name] = cty.ObjectVal(instances)
		if b.Body.Attributes["count"] != nil {
			kinds[kind][name] = cty.TupleVal([]cty.Value{told("0")})
		}
	}
	for kind, named := range kinds {
		c.ctx.Variables[kind] = cty.ObjectVal(named)
	}
}

// locals resolves local values, each once those that it names are.
func (c configuration) locals() {
	pending, known := map[string]hclsyntax.Expression{}, map[string]cty.Value{}
	for _, b := range c.blocks("locals") {
		for name, a := range b.Body.Attributes {
			pending[name] = a.Expr
		}
	}
	for len(pending) > 0 {
		var problems hcl.Diagnostics
		before := len(pending)
		for name, e := range pending {
			c.ctx.Variables["local"] = cty.ObjectVal(known)
			v, diagnostics := e.Value(c.ctx)
			if diagnostics.HasErrors() {
				problems = append(problems, diagnostics...)
				continue
			}
			known[name] = v
			delete(pending, name)
		}
		require.Less(c, len(pending), before, problems.Error())
	}
	c.ctx.Variables["local"] = cty.ObjectVal(known)
}

func (c configuration) eval(e hclsyntax.Expression, ctx *hcl.EvalContext) cty.Value {
	c.Helper()
	v, diagnostics := e.Value(ctx)
	require.False(c, diagnostics.HasErrors(), diagnostics.Error())
	return v
}

// with is a context in which a name has a key and a value.
func with(ctx *hcl.EvalContext, name string, key, value cty.Value) *hcl.EvalContext {
	child := ctx.NewChild()
	child.Variables = map[string]cty.Value{name: cty.ObjectVal(map[string]cty.Value{"key": key, "value": value})}
	return child
}

// instances are those of a resource, by their keys.
func (c configuration) instances(kind, name string) map[string]map[string]any {
	c.Helper()
	for _, b := range c.blocks("resource") {
		if b.Labels[0] != kind || b.Labels[1] != name {
			continue
		}
		all := map[string]map[string]any{}
		if count := b.Body.Attributes["count"]; count != nil {
			if c.eval(count.Expr, c.ctx).RawEquals(cty.NumberIntVal(1)) {
				all["0"] = c.plain(b.Body, c.ctx)
			}
			return all
		}
		for key, value := range c.eval(b.Body.Attributes["for_each"].Expr, c.ctx).Elements() {
			all[key.AsString()] = c.plain(b.Body, with(c.ctx, "each", key, value))
		}
		return all
	}
	require.Fail(c, "no such resource", "%s.%s", kind, name)
	return nil
}

// plain is a body as a tree: its attributes, and its blocks as lists by their types.
func (c configuration) plain(body *hclsyntax.Body, ctx *hcl.EvalContext) map[string]any {
	c.Helper()
	m := map[string]any{}
	for name, a := range body.Attributes {
		if name != "count" && name != "for_each" && name != "depends_on" {
			v := c.eval(a.Expr, ctx)
			text, err := ctyjson.Marshal(v, v.Type())
			require.NoError(c, err)
			var value any
			require.NoError(c, json.Unmarshal(text, &value))
			m[name] = value
		}
	}
	add := func(kind string, of map[string]any) {
		l, _ := m[kind].([]any)
		m[kind] = append(l, of)
	}
	for _, b := range body.Blocks {
		if b.Type != "dynamic" {
			add(b.Type, c.plain(b.Body, ctx))
			continue
		}
		for key, value := range c.eval(b.Body.Attributes["for_each"].Expr, ctx).Elements() {
			add(b.Labels[0], c.plain(b.Body.Blocks[0].Body, with(ctx, b.Labels[0], key, value)))
		}
	}
	return m
}

// policyOf is what a role may, as policyOf of the other template.
func (c configuration) policyOf(id string) (all []iamStatement) {
	c.Helper()
	policies, attachments := c.instances("aws_iam_policy", "of"), c.instances("aws_iam_role_policy_attachment", "of")
	for _, policy := range []string{"acquire", "read", "admin", "usage", "tail", "keeper"} { // in the order of the roles'
		if _, ok := attachments[id+"/"+policy]; ok {
			all = append(all, readPolicy(c.T, policies[policy]["policy"].(string)).Statement...)
		}
	}
	if own, ok := c.instances("aws_iam_role_policy", "of")[id]; ok {
		all = append(all, readPolicy(c.T, own["policy"].(string)).Statement[2:]...)
	}
	return all
}

// configuredBy is the configuration that options make.
func configuredBy(t *testing.T, o Options, at Place, parameters map[string]string) configuration {
	t.Helper()
	values, err := o.Values()
	require.NoError(t, err)
	given := maps.Clone(values) // the same by variables as by defaults
	maps.Copy(given, parameters)
	return configured(t, Terraform(values), at, given)
}
