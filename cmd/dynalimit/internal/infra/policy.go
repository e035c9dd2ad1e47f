package infra

import (
	"encoding/json"
	"slices"
)

// Statement is a statement of a policy that allows something.
type Statement struct {
	// Sid names it.
	Sid string
	// About says what it is for.
	About string
	// Actions are allowed on Resources under all Conditions.
	Actions    []string
	Resources  []Resource
	Conditions []Condition
	// With is the parameter without whose value it is not there; "" for none.
	With string
}

// Resource is what a statement is about: a table, its indexes, or what a parameter names.
type Resource struct {
	// Table is a table's id.
	Table string
	// Indexes are the table's indexes rather than the table, and Stream is its stream.
	Indexes, Stream bool
	// Objects are those of the archive, rather than a table.
	Objects bool
	// Param is the parameter that has the ARN, rather than a table.
	Param string
}

// Condition compares a key of the request with values.
type Condition struct {
	Operator, Key string
	Values        []string
}

// Role is a role with the one policy that it needs.
type Role struct {
	// ID begins the names of what is made for it.
	ID string
	// About says who takes it.
	About string
	// Serves means that a service takes it, so that an AWS service may be trusted.
	Serves bool
	// Function means that the function takes it, and nobody else.
	Function   bool
	Statements []Statement
}

// Place is where a deployment is: what ARNs are made of.
type Place struct {
	// Partition is aws, aws-cn or aws-us-gov.
	Partition string
	// Region and Account are the deployment's.
	Region, Account string
	// Key is the ARN of the key that encrypts the tables, "" for Amazon's.
	Key string
	// Bucket and Prefix are where the archive is, and ArchiveKey is the ARN of its key, ""
	// for what the bucket says.
	Bucket, Prefix, ArchiveKey string
	// Keyset and PriceList are the ARNs of the keeper's secret and of its list of prices, ""
	// for none.
	Keyset, PriceList string
}

// arn is the ARN that a parameter has there.
func (p Place) arn(param string) string {
	return map[string]string{paramKey: p.Key, paramArchiveKey: p.ArchiveKey, paramKeyset: p.Keyset, paramPriceList: p.PriceList}[param]
}

// policyVersion is that of the language of policies.
const policyVersion = "2012-10-17"

// Document is a policy as IAM reads it.
type Document struct {
	Version   string
	Statement []DocumentStatement
}

// DocumentStatement is a statement as IAM reads it.
type DocumentStatement struct {
	Sid       string
	Effect    string
	Action    []string
	Resource  []string
	Condition map[string]map[string][]string `json:",omitempty"`
}

// Policy is the role's policy at a place.
func (m *Model) Policy(role Role, at Place) Document {
	d := Document{Version: policyVersion}
	for _, s := range role.Statements {
		if !s.applies(at) {
			continue
		}
		ds := DocumentStatement{Sid: s.Sid, Effect: "Allow", Action: s.Actions}
		for _, r := range s.Resources {
			ds.Resource = append(ds.Resource, m.arn(r, at))
		}
		for _, c := range s.Conditions {
			if ds.Condition == nil {
				ds.Condition = map[string]map[string][]string{}
			}
			if ds.Condition[c.Operator] == nil {
				ds.Condition[c.Operator] = map[string][]string{}
			}
			ds.Condition[c.Operator][c.Key] = c.Values
		}
		d.Statement = append(d.Statement, ds)
	}
	return d
}

// applies reports whether the statement is there at a place.
func (s Statement) applies(at Place) bool {
	return s.With == "" || at.arn(s.With) != ""
}

// JSON is a policy as text.
func (d Document) JSON() string {
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil { // strings and lists of them
		panic(err)
	}
	return string(text)
}

func (m *Model) arn(r Resource, at Place) string {
	switch {
	case r.Objects:
		return "arn:" + at.Partition + ":s3:::" + at.Bucket + "/" + at.Prefix + "*"
	case r.Param != "":
		return at.arn(r.Param)
	}
	arn := "arn:" + at.Partition + ":dynamodb:" + at.Region + ":" + at.Account + ":table/" + m.name(r.Table)
	return arn + r.below()
}

// below is what follows the table in an ARN.
func (r Resource) below() string {
	switch {
	case r.Indexes:
		return "/index/*"
	case r.Stream:
		return "/stream/*"
	}
	return ""
}

// operators are those of a statement's conditions, in their order.
func (s Statement) operators() []string {
	var operators []string
	for _, c := range s.Conditions {
		if !slices.Contains(operators, c.Operator) {
			operators = append(operators, c.Operator)
		}
	}
	return operators
}

// under are the conditions of an operator.
func (s Statement) under(operator string) []Condition {
	return slices.DeleteFunc(slices.Clone(s.Conditions), func(c Condition) bool { return c.Operator != operator })
}
