package stacktest

import (
	"fmt"
	"strings"
)

// What answers consist of.
const (
	// Absent is the error about a stack that is not there.
	Absent = "!ValidationError: Stack with id NAME does not exist"
	// Ours is the tag of stacks that were deployed with the command.
	Ours = "<Tags><member><Key>deployed-by</Key><Value>dynalimit</Value></member></Tags>"
	// Protected says that termination protection is on.
	Protected = "<EnableTerminationProtection>true</EnableTerminationProtection>"
	// Unchanged is the error of an update that changes nothing.
	Unchanged = "!ValidationError: No updates are to be performed."
	// Begun is the id of a stack that is created or updated.
	Begun = "<StackId>ID</StackId>"
)

// Stack is a stack with a status, with what more is said of it.
func Stack(name, status string, more ...string) string {
	return fmt.Sprintf("<member><StackName>%s</StackName><StackId>%s</StackId><StackStatus>%s</StackStatus><CreationTime>2026-01-23T15:30:45Z</CreationTime>%s</member>",
		name, strings.Replace(ID("X"), "X", name, 1), status, strings.Join(more, ""))
}

// Stacks is the answer that has stacks.
func Stacks(stacks ...string) string { return list("Stacks", stacks) }

// Event is an event of a resource, or of the stack where the resource is NAME.
func Event(id int, resource, status, reason string) string {
	physical, kind := "x", "AWS::IAM::Role"
	if resource == "NAME" {
		physical, kind = "ID", "AWS::CloudFormation::Stack"
	}
	return fmt.Sprintf("<member><EventId>event-%d</EventId><StackId>ID</StackId><StackName>NAME</StackName><LogicalResourceId>%s</LogicalResourceId><PhysicalResourceId>%s</PhysicalResourceId>"+
		"<ResourceType>%s</ResourceType><ResourceStatus>%s</ResourceStatus><ResourceStatusReason>%s</ResourceStatusReason><Timestamp>2026-01-23T15:30:45Z</Timestamp></member>", id, resource, physical, kind, status, reason)
}

// Events is the answer that has events, the newest first.
func Events(events ...string) string { return list("StackEvents", events) }

// Resource is something that a stack made.
func Resource(logical, physical, kind string) string {
	return fmt.Sprintf("<member><LogicalResourceId>%s</LogicalResourceId><PhysicalResourceId>%s</PhysicalResourceId><ResourceType>%s</ResourceType><ResourceStatus>CREATE_COMPLETE</ResourceStatus></member>", logical, physical, kind)
}

// Resources is the answer that has resources.
func Resources(resources ...string) string { return list("StackResourceSummaries", resources) }

// Next is the mark of an answer that more of follows.
const Next = "<NextToken>next</NextToken>"

// Summary says which parameters a template has, and that it makes roles.
func Summary(parameters ...string) string {
	for i, name := range parameters {
		parameters[i] = "<member><ParameterKey>" + name + "</ParameterKey><ParameterType>String</ParameterType></member>"
	}
	return list("Parameters", parameters) + "<Capabilities><member>CAPABILITY_IAM</member></Capabilities><CapabilitiesReason>it makes roles</CapabilitiesReason>"
}

// Template is the answer that has a template.
func Template(text string) string { return "<TemplateBody>" + text + "</TemplateBody>" }

// Output is a value that a stack gives to others.
func Output(name, value string) string {
	return "<Outputs><member><OutputKey>" + name + "</OutputKey><OutputValue>" + value + "</OutputValue></member></Outputs>"
}

func list(name string, members []string) string {
	return "<" + name + ">" + strings.Join(members, "") + "</" + name + ">"
}
