package stacktest

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func stamp(name string, at time.Time) element {
	if at.IsZero() {
		return element{name: name}
	}
	return text(name, at.UTC().Format(time.RFC3339))
}

func (s *Server) describeStacks(form url.Values) ([]element, *fault) {
	stacks := s.stacks
	if name := form.Get("StackName"); name != "" {
		st, err := s.need(name)
		if err != nil {
			return nil, err
		}
		stacks = []*stack{st}
	} else {
		stacks = slices.DeleteFunc(slices.Clone(stacks), func(st *stack) bool { return st.status == "DELETE_COMPLETE" })
	}
	from, to, next := s.page(form, len(stacks))
	return append([]element{list("Stacks", stacks[from:to], s.stackElement)}, next...), nil
}

func (s *Server) stackElement(st *stack) element {
	inner := []element{
		text("StackName", st.name), text("StackId", st.id), text("StackStatus", st.status), text("StackStatusReason", st.reason),
		stamp("CreationTime", st.created), stamp("LastUpdatedTime", st.updated), text("EnableTerminationProtection", st.protected), text("RoleARN", st.role),
		group("DriftInformation", text("StackDriftStatus", st.drift)),
		list("Tags", sortedKeys(st.tags), func(key string) element { return group("", text("Key", key), text("Value", st.tags[key])) }),
		list("Parameters", sortedKeys(st.params), func(key string) element {
			return group("", text("ParameterKey", key), text("ParameterValue", st.params[key]))
		}),
	}
	if tree, err := parse(st.body); err == nil && strings.HasSuffix(st.status, "_COMPLETE") {
		scope := s.scope(tree, st.params, st.physical)
		outputs := child(tree, "Outputs")
		inner = append(inner, text("Description", tree["Description"]), list("Outputs", sortedKeys(outputs), func(name string) element {
			o, _ := scope.resolve(outputs[name]).(map[string]any)
			about := ""
			if o["Description"] != nil {
				about = fmt.Sprint(o["Description"])
			}
			return group("", text("OutputKey", name), text("OutputValue", o["Value"]), text("Description", about))
		}))
	}
	return group("", inner...)
}

func (s *Server) describeStackEvents(form url.Values) ([]element, *fault) {
	st, err := s.need(form.Get("StackName"))
	if err != nil {
		return nil, err
	}
	if form.Get("NextToken") == "" {
		s.tell(st)
	}
	events := slices.Clone(st.events)
	slices.Reverse(events)
	from, to, next := s.page(form, len(events))
	return append([]element{list("StackEvents", events[from:to], func(e event) element {
		return group("", text("EventId", e.id), text("StackId", st.id), text("StackName", st.name), text("LogicalResourceId", e.logical), text("PhysicalResourceId", e.physical),
			text("ResourceType", e.kind), text("ResourceStatus", e.status), text("ResourceStatusReason", e.reason), stamp("Timestamp", e.at))
	})}, next...), nil
}

func (s *Server) listStackResources(form url.Values) ([]element, *fault) {
	st, err := s.need(form.Get("StackName"))
	if err != nil {
		return nil, err
	}
	names := sortedKeys(st.physical)
	from, to, next := s.page(form, len(names))
	return append([]element{list("StackResourceSummaries", names[from:to], func(name string) element {
		return group("", text("LogicalResourceId", name), text("PhysicalResourceId", st.physical[name]), text("ResourceType", st.made[name].kind),
			text("ResourceStatus", "CREATE_COMPLETE"), stamp("LastUpdatedTimestamp", st.created))
	})}, next...), nil
}

func (s *Server) getTemplate(form url.Values) ([]element, *fault) {
	st, err := s.need(form.Get("StackName"))
	if err != nil {
		return nil, err
	}
	return []element{text("TemplateBody", st.body)}, nil
}

func (s *Server) updateTerminationProtection(form url.Values) ([]element, *fault) {
	st, err := s.need(form.Get("StackName"))
	if err != nil {
		return nil, err
	}
	st.protected = form.Get("EnableTerminationProtection") == "true"
	return []element{text("StackId", st.id)}, nil
}
