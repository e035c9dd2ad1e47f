package stacktest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// fixed are the properties of a table that cannot be changed in place.
var fixed = []string{"TableName", "KeySchema"}

const tableType = "AWS::DynamoDB::Table"

func (s *Server) getTemplateSummary(form url.Values) ([]element, *fault) {
	tree, err := parse(form.Get("TemplateBody"))
	if err != nil {
		return nil, invalid("Template format error: %v", err)
	}
	var inner []element
	params := child(tree, "Parameters")
	inner = append(inner, list("Parameters", slices.Sorted(maps.Keys(params)), func(name string) element {
		return group("", text("ParameterKey", name), text("ParameterType", "String"))
	}))
	if capability := capabilityOf(tree); capability != "" {
		inner = append(inner, list("Capabilities", []string{capability}, func(c string) element { return text("", c) }),
			text("CapabilitiesReason", "The following resource(s) require capabilities: ["+strings.Join(iamTypes(tree), ", ")+"]"))
	}
	return inner, nil
}

func iamTypes(tree template) []string {
	kinds := map[string]bool{}
	for _, r := range child(tree, "Resources") {
		if kind, _ := r.(map[string]any)["Type"].(string); strings.HasPrefix(kind, "AWS::IAM::") {
			kinds[kind] = true
		}
	}
	return slices.Sorted(maps.Keys(kinds))
}

func capabilityOf(tree template) string {
	if len(iamTypes(tree)) == 0 {
		return ""
	}
	for _, r := range child(tree, "Resources") {
		p := child(r.(map[string]any), "Properties")
		if p["RoleName"] != nil || p["ManagedPolicyName"] != nil {
			return "CAPABILITY_NAMED_IAM"
		}
	}
	return "CAPABILITY_IAM"
}

func (s *Server) createChangeSet(form url.Values) ([]element, *fault) {
	name, kind, body := form.Get("StackName"), form.Get("ChangeSetType"), form.Get("TemplateBody")
	if len(body) > 51_200 {
		return nil, invalid("1 validation error detected: Value at 'templateBody' failed to satisfy constraint: Member must have length less than or equal to 51200")
	}
	tree, err := parse(body)
	if err != nil {
		return nil, invalid("Template format error: %v", err)
	}
	if want := capabilityOf(tree); want != "" && form.Get("Capabilities.member.1") != want {
		return nil, &fault{"InsufficientCapabilitiesException", "Requires capabilities : [" + want + "]", 400}
	}
	st := s.find(name)
	switch {
	case st == nil && kind == "UPDATE":
		return nil, invalid("Stack [%s] does not exist", name)
	case st == nil:
		st = &stack{id: s.arn("stack", name), name: name, status: "REVIEW_IN_PROGRESS", created: s.now(), drift: "NOT_CHECKED", made: map[string]resource{}, physical: map[string]string{}}
		s.stacks = append(s.stacks, st)
		s.noteStack(st, "REVIEW_IN_PROGRESS", "User Initiated")
		s.tell(st)
	case kind == "CREATE" && st.status != "REVIEW_IN_PROGRESS":
		return nil, invalid("Stack [%s] already exists and cannot be created again with the changeSet", name)
	case kind == "UPDATE" && !updatable(st.status):
		return nil, invalid("Stack:%s is in %s state and can not be updated.", st.id, st.status)
	}
	c := s.propose(st, tree, form)
	return []element{text("Id", c.id), text("StackId", st.id)}, nil
}

// propose makes a change set of a stack.
func (s *Server) propose(st *stack, tree template, form url.Values) *changeSet {
	c := &changeSet{
		id: s.arn("changeSet", form.Get("ChangeSetName")), name: form.Get("ChangeSetName"), status: "CREATE_IN_PROGRESS", body: form.Get("TemplateBody"),
		kind: form.Get("ChangeSetType"), role: form.Get("RoleARN"), params: merged(st.params, pairs(form, "Parameters", "ParameterKey", "ParameterValue")),
		tags: pairs(form, "Tags", "Key", "Value"), looks: s.Slow,
	}
	scope := s.scope(tree, c.params, st.physical)
	c.params = scope.params
	c.next, c.order = scope.resources()
	c.compare(st)
	st.sets = append(st.sets, c)
	return c
}

func updatable(status string) bool {
	return status == "CREATE_COMPLETE" || status == "UPDATE_COMPLETE" || status == "UPDATE_ROLLBACK_COMPLETE"
}

// compare finds what a change set changes.
func (c *changeSet) compare(st *stack) {
	for _, name := range c.order {
		next := c.next[name]
		old, there := st.made[name]
		switch {
		case !there:
			c.changes = append(c.changes, change{action: "Add", logical: name, kind: next.kind})
		case !reflect.DeepEqual(old.properties, next.properties) || old.kind != next.kind:
			c.changes = append(c.changes, modified(name, st.physical[name], old, next))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(st.made)) {
		if _, stays := c.next[name]; !stays {
			c.changes = append(c.changes, change{action: "Remove", logical: name, physical: st.physical[name], kind: st.made[name].kind})
		}
	}
}

// modified is the change of a resource that is there.
func modified(name, physical string, old, next resource) change {
	m := change{action: "Modify", logical: name, physical: physical, kind: next.kind, replacement: "False"}
	for _, property := range slices.Sorted(maps.Keys(merged(old.properties, next.properties))) {
		before, after := old.properties[property], next.properties[property]
		if reflect.DeepEqual(before, after) {
			continue
		}
		d := detail{property, shown(before), shown(after), "Never"}
		if next.kind == tableType && slices.Contains(fixed, property) {
			d.recreation, m.replacement = "Always", "True"
		}
		m.details = append(m.details, d, d) // one for each cause
	}
	return m
}

func merged[V any](a, b map[string]V) map[string]V {
	m := map[string]V{}
	maps.Copy(m, a)
	maps.Copy(m, b)
	return m
}

func shown(v any) string {
	if v == nil {
		return ""
	}
	if text, ok := v.(string); ok {
		return text
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

func (s *Server) changeSet(form url.Values) (*stack, *changeSet, *fault) {
	st, err := s.need(form.Get("StackName"))
	if err != nil {
		return nil, nil, err
	}
	for _, c := range st.sets {
		if name := form.Get("ChangeSetName"); c.id == name || c.name == name {
			return st, c, nil
		}
	}
	return nil, nil, &fault{"ChangeSetNotFound", fmt.Sprintf("ChangeSet [%s] does not exist", form.Get("ChangeSetName")), 404}
}

func (s *Server) describeChangeSet(form url.Values) ([]element, *fault) {
	_, c, err := s.changeSet(form)
	if err != nil {
		return nil, err
	}
	switch c.looks--; {
	case c.looks >= 0 || c.status != "CREATE_IN_PROGRESS":
	case len(c.changes) == 0:
		c.status, c.reason = "FAILED", "The submitted information didn't contain changes. Submit different information to create a change set."
	default:
		c.status = "CREATE_COMPLETE"
	}
	inner := []element{text("ChangeSetId", c.id), text("Status", c.status), text("StatusReason", c.reason)}
	if c.status != "CREATE_COMPLETE" {
		return inner, nil
	}
	from, to, next := s.page(form, len(c.changes))
	inner = append(inner, list("Changes", c.changes[from:to], func(ch change) element {
		return group("", text("Type", "Resource"), group("ResourceChange",
			text("Action", ch.action), text("LogicalResourceId", ch.logical), text("PhysicalResourceId", ch.physical), text("ResourceType", ch.kind), text("Replacement", ch.replacement),
			list("Details", ch.details, func(d detail) element {
				return group("", group("Target", text("Attribute", "Properties"), text("Name", d.name), text("RequiresRecreation", d.recreation),
					text("BeforeValue", d.before), text("AfterValue", d.after)))
			})))
	}))
	return append(inner, next...), nil
}

func (s *Server) deleteChangeSet(form url.Values) ([]element, *fault) {
	st, c, err := s.changeSet(form)
	if err != nil {
		return nil, err
	}
	st.sets = slices.DeleteFunc(st.sets, func(other *changeSet) bool { return other == c })
	return nil, nil
}
