package stacktest

import (
	"fmt"
	"strings"
)

// Parts of answers.
const (
	// Absent is the error about a missing stack.
	Absent = "!ValidationError: Stack with id NAME does not exist"
	// Ours is the tag of stacks that the command deployed.
	Ours = "<Tags><member><Key>deployed-by</Key><Value>dynalimit</Value></member></Tags>"
	// Protected turns termination protection on.
	Protected = "<EnableTerminationProtection>true</EnableTerminationProtection>"
	// Unchanged is the error of an update without a change.
	Unchanged = "!ValidationError: No updates are to be performed."
	// Begun is the id of a created or updated stack.
	Begun = "<StackId>ID</StackId>"
)

// Stack returns the XML of one stack with a status and more elements, such as its tags. Pass it to Stacks.
func Stack(name, status string, more ...string) string {
	return fmt.Sprintf("<member><StackName>%s</StackName><StackId>%s</StackId><StackStatus>%s</StackStatus><CreationTime>2026-01-23T15:30:45Z</CreationTime>%s</member>",
		name, strings.Replace(ID("X"), "X", name, 1), status, strings.Join(more, ""))
}

// Stacks returns the body of an answer to DescribeStacks, with XML from Stack.
func Stacks(stacks ...string) string { return listElement("Stacks", stacks) }

// Event returns the XML of an event of a resource with a number, a status and a reason, for Events. The
// resource NAME means the stack itself.
func Event(id int, resource, status, reason string) string {
	physical, kind := "x", "AWS::IAM::Role"
	if resource == "NAME" {
		physical, kind = "ID", "AWS::CloudFormation::Stack"
	}
	return fmt.Sprintf("<member><EventId>event-%d</EventId><StackId>ID</StackId><StackName>NAME</StackName><LogicalResourceId>%s</LogicalResourceId><PhysicalResourceId>%s</PhysicalResourceId>"+
		"<ResourceType>%s</ResourceType><ResourceStatus>%s</ResourceStatus><ResourceStatusReason>%s</ResourceStatusReason><Timestamp>2026-01-23T15:30:45Z</Timestamp></member>", id, resource, physical, kind, status, reason)
}

// Events returns the body of an answer to DescribeStackEvents, with XML from Event, the newest first.
func Events(events ...string) string { return listElement("StackEvents", events) }

// Resource returns the XML of a created resource of a stack, for Resources.
func Resource(logical, physical, kind string) string {
	return fmt.Sprintf("<member><LogicalResourceId>%s</LogicalResourceId><PhysicalResourceId>%s</PhysicalResourceId><ResourceType>%s</ResourceType><ResourceStatus>CREATE_COMPLETE</ResourceStatus></member>", logical, physical, kind)
}

// Resources returns the body of an answer to ListStackResources, with XML from Resource.
func Resources(resources ...string) string { return listElement("StackResourceSummaries", resources) }

// Next is the mark of an answer with more pages.
const Next = "<NextToken>next</NextToken>"

// Summary returns the body of an answer to GetTemplateSummary: a template with the named parameters that needs
// permission to make roles. It replaces the elements of parameters in place.
func Summary(parameters ...string) string {
	for i, name := range parameters {
		parameters[i] = "<member><ParameterKey>" + name + "</ParameterKey><ParameterType>String</ParameterType></member>"
	}
	return listElement("Parameters", parameters) + "<Capabilities><member>CAPABILITY_IAM</member></Capabilities><CapabilitiesReason>it makes roles</CapabilitiesReason>"
}

// Template returns the body of an answer to GetTemplate with the text of a template, which it does not escape.
func Template(text string) string { return "<TemplateBody>" + text + "</TemplateBody>" }

// Output returns the XML of a stack's outputs with one value, for the further elements of Stack.
func Output(name, value string) string {
	return "<Outputs><member><OutputKey>" + name + "</OutputKey><OutputValue>" + value + "</OutputValue></member></Outputs>"
}

// listElement returns an XML element with the given members.
func listElement(name string, members []string) string {
	return "<" + name + ">" + strings.Join(members, "") + "</" + name + ">"
}
