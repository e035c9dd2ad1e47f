// Package stacktest plays recorded answers of CloudFormation about stacks.
package stacktest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
)

// Stage is the answers about a stack in one state.
type Stage struct {
	// Answers are the bodies of the answers to each action, one after the other; the last one
	// repeats. A body that begins with "!" is an error, as CODE: MESSAGE. NAME stands for the
	// stack's name, and ID for its id.
	Answers map[string][]string
	// Then maps actions to the next stage.
	Then map[string]*Stage

	played map[string]int
}

// Again is the stage where a stack begins.
var Again = &Stage{}

// Player is a CloudFormation over HTTP that plays stages, separately for each stack.
type Player struct {
	// First returns the first stage of each stack.
	First func() *Stage
	// List is the answer about all stacks.
	List []string
	// After is called after each request with its action and the stack's name.
	After func(action, stack string)

	mu     sync.Mutex
	stages map[string]*Stage
	asked  []url.Values
}

// Requests returns the form values of all requests of an action so far, in their order, for all stacks.
func (p *Player) Requests(action string) (all []url.Values) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, form := range p.asked {
		if form.Get("Action") == action {
			all = append(all, form)
		}
	}
	return all
}

// SetStage puts a stack on a stage. Later requests about it get that stage's answers.
func (p *Player) SetStage(stack string, stage *Stage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stages == nil {
		p.stages = map[string]*Stage{}
	}
	p.stages[stack] = stage
}

// Client returns a CloudFormation client; p answers its requests in this process.
func (p *Player) Client() *cloudformation.Client {
	return cloudformation.New(cloudformation.Options{
		Region: "us-east-1", HTTPClient: p, BaseEndpoint: aws.String("http://stacktest.invalid"),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}

// Do implements aws.HTTPClient. It answers a request by ServeHTTP without a network, or fails if the request's
// context has ended.
func (p *Player) Do(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Result(), nil
}

// ServeHTTP answers a CloudFormation request with the next recorded answer, or with the recorded error. It puts
// the stack's name and id in place of NAME and ID, and calls p.After before it writes the answer.
func (p *Player) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	action, stack := r.Form.Get("Action"), r.Form.Get("StackName")
	if parts := strings.Split(stack, "/"); len(parts) > 1 { // an id
		stack = parts[1]
	}
	text := strings.NewReplacer("NAME", stack, "ID", ID(stack)).Replace(p.nextAnswer(action, stack, r.Form))
	if p.After != nil {
		p.After(action, stack)
	}
	w.Header().Set("Content-Type", "text/xml")
	const namespace = "http://cloudformation.amazonaws.com/doc/2010-05-15/"
	if failure, failed := strings.CutPrefix(text, "!"); failed {
		code, message, _ := strings.Cut(failure, ": ")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `<ErrorResponse xmlns="%s"><Error><Code>%s</Code><Message>%s</Message></Error></ErrorResponse>`, namespace, code, message)
		return
	}
	fmt.Fprintf(w, `<%[1]sResponse xmlns="%[2]s"><%[1]sResult>%[3]s</%[1]sResult></%[1]sResponse>`, action, namespace, text)
}

// nextAnswer records the request and returns the stage's next answer; the last repeats, and without one it is
// the error NotRecorded. Unless it is an error, it enters the action's next stage. A DescribeStacks of no stack
// gets the next answer of p.List.
func (p *Player) nextAnswer(action, stack string, form url.Values) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, form)
	if action == "DescribeStacks" && stack == "" {
		list := p.List
		if len(list) > 1 {
			p.List = list[1:]
		}
		return strings.Join(list[:min(1, len(list))], "")
	}
	stage := p.stages[stack]
	if stage == nil {
		stage = p.First()
	}
	if p.stages == nil {
		p.stages = map[string]*Stage{}
	}
	p.stages[stack] = stage
	answers, known := stage.Answers[action]
	if !known {
		return fmt.Sprintf("!NotRecorded: %s of %s", action, stack)
	}
	if stage.played == nil {
		stage.played = map[string]int{}
	}
	text := answers[min(stage.played[action], len(answers)-1)]
	stage.played[action]++
	if next := stage.Then[action]; next != nil && !strings.HasPrefix(text, "!") {
		p.stages[stack] = next
		if next == Again {
			delete(p.stages, stack)
		}
	}
	return text
}

// ID returns the made-up ARN that answers use as the id of a stack with this name.
func ID(stack string) string {
	return "arn:aws:cloudformation:us-east-1:000000000000:stack/" + stack + "/00000001"
}
