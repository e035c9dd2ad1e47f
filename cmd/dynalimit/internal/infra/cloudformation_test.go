package infra

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// Place is where a deployment is, and what it finds there.
type Place struct {
	// Partition is aws, aws-cn or aws-us-gov.
	Partition, Region, Account string
	// Key is the ARN of the key that encrypts the tables, "" for Amazon's.
	Key string
	// Bucket and Prefix are where the archive is, and ArchiveKey is the ARN of its key.
	Bucket, Prefix, ArchiveKey string
	// Keyset is the ARN of the keeper's secret.
	Keyset string
	// Alerts is the ARN of the secret with the webhook of alerts.
	Alerts string
}

// parameters are those that say where a deployment is.
func (p Place) parameters() map[string]string {
	all := map[string]string{
		"KmsKeyArn": p.Key, "KeysetSecretArn": p.Keyset, "AlertSecretArn": p.Alerts,
		"ArchiveBucket": p.Bucket, "ArchivePrefix": p.Prefix, "ArchiveKmsKeyArn": p.ArchiveKey,
	}
	maps.DeleteFunc(all, func(_, v string) bool { return v == "" })
	return all
}

// stack resolves the template as CloudFormation does.
type stack struct {
	*testing.T
	parameters map[string]string
	conditions map[string]*yaml.Node
}

// resources are those of the template with values of its parameters, without those whose
// condition does not hold.
func resources(t *testing.T, text string, at Place, parameters map[string]string) map[string]any {
	t.Helper()
	var root yaml.Node
	require.NoError(t, yaml.Unmarshal([]byte(text), &root))
	s := stack{t, map[string]string{"AWS::Partition": at.Partition, "AWS::Region": at.Region, "AWS::AccountId": at.Account}, map[string]*yaml.Node{}}
	sections := entries(root.Content[0])
	for name, p := range s.value(sections["Parameters"]).(map[string]any) {
		s.parameters[name] = p.(map[string]any)["Default"].(string)
	}
	for _, given := range []map[string]string{at.parameters(), parameters} {
		for name, value := range given {
			require.Contains(t, s.parameters, name)
			s.parameters[name] = value
		}
	}
	s.conditions = entries(sections["Conditions"])
	made := map[string]any{}
	for name, r := range entries(sections["Resources"]) {
		resource := s.value(r).(map[string]any)
		if condition, ok := resource["Condition"]; !ok || s.matchesCondition(condition.(string)) {
			made[name] = resource
		}
	}
	return made
}

// entries are those of a mapping.
func entries(n *yaml.Node) map[string]*yaml.Node {
	m := map[string]*yaml.Node{}
	for i := 0; i < len(n.Content); i += 2 {
		m[n.Content[i].Value] = n.Content[i+1]
	}
	return m
}

// made are the resources that options make.
func made(t *testing.T, o Options, at Place, parameters map[string]string) map[string]any {
	t.Helper()
	values, err := o.Values()
	require.NoError(t, err)
	return resources(t, CloudFormation(values), at, parameters)
}

func (s stack) matchesCondition(condition string) bool {
	require.Contains(s, s.conditions, condition)
	return s.value(s.conditions[condition]).(bool)
}

// nothing is AWS::NoValue.
type nothing struct{}

func (s stack) value(n *yaml.Node) any {
	if strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!") {
		return s.function(n)
	}
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for name, of := range entries(n) {
			if v := s.value(of); v != (nothing{}) {
				m[name] = v
			}
		}
		return m
	case yaml.SequenceNode:
		return slices.DeleteFunc(s.values(n), func(v any) bool { return v == nothing{} })
	default:
		var v any
		require.NoError(s, n.Decode(&v))
		return v
	}
}

func (s stack) values(n *yaml.Node) []any {
	all := make([]any, len(n.Content))
	for i, v := range n.Content {
		all[i] = s.value(v)
	}
	return all
}

func (s stack) function(n *yaml.Node) any {
	if n.Kind == yaml.SequenceNode {
		return s.logic(n.Tag, s.values(n))
	}
	name, text := n.Tag, n.Value
	switch name {
	case "!Ref":
		if text == "AWS::NoValue" {
			return nothing{}
		}
		if v, ok := s.parameters[text]; ok {
			return v
		}
		return "ref:" + text
	case "!Sub":
		for name, v := range s.parameters {
			text = strings.ReplaceAll(text, "${"+name+"}", v)
		}
		require.NotContains(s, text, "${")
		return text
	case "!Condition":
		return s.matchesCondition(text)
	default:
		require.Equal(s, "!GetAtt", name)
		return name + " " + text
	}
}

func (s stack) logic(name string, of []any) any {
	switch name {
	case "!If":
		if s.matchesCondition(of[0].(string)) {
			return of[1]
		}
		return of[2]
	case "!Equals":
		return of[0] == of[1]
	case "!Not":
		return !of[0].(bool)
	case "!And":
		return !slices.Contains(of, any(false))
	default:
		require.Equal(s, "!Or", name)
		return slices.Contains(of, any(true))
	}
}

// document is a policy as IAM reads it.
type document struct {
	Version   string
	Statement []documentStatement
}

type documentStatement struct {
	Sid       string
	Effect    string
	Action    values
	Resource  values
	Condition map[string]map[string]values `json:",omitempty"`
}

// policyOf is what a role may at a place: its policies as one, without what every function may,
// which is to write its log and to tell what it gave up.
func policyOf(t *testing.T, id string, o Options, at Place) string {
	t.Helper()
	all := made(t, o, at, nil)
	d := document{Version: "2012-10-17"}
	role := propertiesOf(all, id+"Role")
	managed, _ := role["ManagedPolicyArns"].([]any)
	for _, arn := range managed {
		policy := propertiesOf(all, strings.TrimPrefix(arn.(string), "ref:"))
		d.Statement = append(d.Statement, as[document](t, policy["PolicyDocument"]).Statement...)
	}
	own, _ := role["Policies"].([]any)
	for _, policy := range own {
		d.Statement = append(d.Statement, as[document](t, policy.(map[string]any)["PolicyDocument"]).Statement...)
	}
	d.Statement = slices.DeleteFunc(d.Statement, func(s documentStatement) bool { return s.Sid == "WriteLog" || s.Sid == "TellGivenUp" })
	text, err := json.MarshalIndent(d, "", "  ")
	require.NoError(t, err)
	return string(text)
}

func propertiesOf(resources map[string]any, id string) map[string]any {
	return resources[id].(map[string]any)["Properties"].(map[string]any)
}

// as reads a resolved value as a type of its own.
func as[T any](t *testing.T, v any) (out T) {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &out), "%s", text)
	return out
}
