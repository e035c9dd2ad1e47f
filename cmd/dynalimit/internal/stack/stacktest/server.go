// Package stacktest is a CloudFormation for tests: it keeps stacks, change sets and events,
// and makes the tables of a template in a DynamoDB that it is given. What else a template
// asks for it only writes down.
package stacktest

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// Server is a CloudFormation over HTTP. Set its fields before it is used, or by Set.
type Server struct {
	// DynamoDB is where tables are made. Defaults to nowhere.
	DynamoDB *dynamodb.Client
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
	// Partition and Region are part of every ARN. Default to aws and us-east-1.
	Partition, Region string
	// PageSize is how much a page of an answer holds. Defaults to 100.
	PageSize int
	// Steps is how many events each look at the events brings. Defaults to all.
	Steps int
	// Slow is how often a change set is looked at before it is known what it changes.
	Slow int
	// Fail are the resources that cannot be made, by their logical ids, and why.
	Fail map[string]string
	// Refuse answers requests of an action with an error, as often as it says; -1 is for ever.
	Refuse map[string]Refusal
	// After is called after each request, by its action.
	After func(action string)

	mu       sync.Mutex
	stacks   []*stack
	sequence int
	requests map[string]int
}

// Refusal is an error that a Server answers.
type Refusal struct {
	Code, Message string
	Status, Times int
}

type stack struct {
	id, name, role, body string
	status, reason       string
	created, updated     time.Time
	params, tags         map[string]string
	protected            bool
	drift                string
	made                 map[string]resource
	physical             map[string]string
	events               []event
	hidden               []event // not told yet
	sets                 []*changeSet
	// settle is what becomes of the stack when its last event is told.
	settle func()
}

type event struct {
	id, logical, physical, kind, status, reason string
	at                                          time.Time
}

type changeSet struct {
	id, name, status, reason, body, role string
	params, tags                         map[string]string
	next                                 map[string]resource
	order                                []string
	changes                              []change
	looks                                int
	kind                                 string
}

type change struct {
	action, logical, physical, kind, replacement string
	details                                      []detail
}

type detail struct{ name, before, after, recreation string }

// Do answers a request in the process, so that a client needs no connection.
func (s *Server) Do(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result(), nil
}

// Client is a client whose requests stay in the process.
func (s *Server) Client() *cloudformation.Client {
	return cloudformation.New(cloudformation.Options{
		Region: s.region(), HTTPClient: s, BaseEndpoint: aws.String("http://stacktest.invalid"),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}

// Requests is how often an action was asked for.
func (s *Server) Requests(action string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[action]
}

// Set changes the server while it is used.
func (s *Server) Set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// Drift sets what CloudFormation last found about a stack's drift.
func (s *Server) Drift(stack, status string) {
	s.Set(func() { s.find(stack).drift = status })
}

// Untag makes a stack one that somebody else deployed.
func (s *Server) Untag(stack string) {
	s.Set(func() { s.find(stack).tags = nil })
}

// Stand sets the status of a stack, as if somebody else was at work.
func (s *Server) Stand(stack, status string) {
	s.Set(func() { s.find(stack).status = status })
}

func (s *Server) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

func (s *Server) partition() string { return or(s.Partition, "aws") }
func (s *Server) region() string    { return or(s.Region, "us-east-1") }

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

const account = "000000000000"

func (s *Server) arn(kind, name string) string {
	s.sequence++
	return fmt.Sprintf("arn:%s:cloudformation:%s:%s:%s/%s/%08d", s.partition(), s.region(), account, kind, name, s.sequence)
}

// ServeHTTP answers a request of the query protocol.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		invalid("%v", err).answer(w)
		return
	}
	defer func() { // a bug here is an answer that nobody sends again
		if bug := recover(); bug != nil {
			(&fault{"StackTestBug", fmt.Sprint(bug), http.StatusBadRequest}).answer(w)
		}
	}()
	action := r.Form.Get("Action")
	inner, err := s.serve(action, r.Form)
	if s.After != nil {
		s.After(action)
	}
	if err != nil {
		err.answer(w)
		return
	}
	answer(w, action, inner)
}

func (s *Server) serve(action string, form url.Values) ([]element, *fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests == nil {
		s.requests = map[string]int{}
	}
	s.requests[action]++
	if refusal, ok := s.Refuse[action]; ok && refusal.Times != 0 {
		refusal.Times--
		s.Refuse[action] = refusal
		return nil, &fault{refusal.Code, refusal.Message, refusal.Status}
	}
	handler := map[string]func(url.Values) ([]element, *fault){
		"CreateChangeSet": s.createChangeSet, "DescribeChangeSet": s.describeChangeSet, "ExecuteChangeSet": s.executeChangeSet,
		"DeleteChangeSet": s.deleteChangeSet, "DescribeStacks": s.describeStacks, "DescribeStackEvents": s.describeStackEvents,
		"ListStackResources": s.listStackResources, "GetTemplate": s.getTemplate, "GetTemplateSummary": s.getTemplateSummary,
		"DeleteStack": s.deleteStack, "UpdateTerminationProtection": s.updateTerminationProtection,
	}[action]
	if handler == nil {
		return nil, &fault{"InvalidAction", "Could not find operation " + action, http.StatusBadRequest}
	}
	return handler(form)
}

// find is the stack of a name that is not deleted, or of an id; nil for none.
func (s *Server) find(name string) *stack {
	for _, st := range slices.Backward(s.stacks) {
		if st.id == name || st.name == name && st.status != "DELETE_COMPLETE" {
			return st
		}
	}
	return nil
}

func (s *Server) need(name string) (*stack, *fault) {
	if st := s.find(name); st != nil {
		return st, nil
	}
	return nil, invalid("Stack with id %s does not exist", name)
}

// page cuts a page out of n things by a token.
func (s *Server) page(form url.Values, n int) (from, to int, next []element) {
	from, _ = strconv.Atoi(form.Get("NextToken")) // none is 0
	size := s.PageSize
	if size == 0 {
		size = 100
	}
	if to = min(n, from+size); to < n {
		next = []element{text("NextToken", to)}
	}
	return min(from, n), to, next
}

// pairs reads a list of keys and values: Parameters.member.1.ParameterKey.
func pairs(form url.Values, list, key, value string) map[string]string {
	m := map[string]string{}
	for i := 1; form.Has(fmt.Sprintf("%s.member.%d.%s", list, i, key)); i++ {
		prefix := fmt.Sprintf("%s.member.%d.", list, i)
		if form.Get(prefix+"UsePreviousValue") != "true" {
			m[form.Get(prefix+key)] = form.Get(prefix + value)
		}
	}
	return m
}

func (s *Server) note(st *stack, logical, physical, kind, status, reason string) {
	s.sequence++
	st.hidden = append(st.hidden, event{fmt.Sprintf("event-%08d", s.sequence), logical, physical, kind, status, reason, s.now()})
}

func (s *Server) noteStack(st *stack, status, reason string) {
	s.note(st, st.name, st.id, "AWS::CloudFormation::Stack", status, reason)
}

// tell shows the next events of what is under way.
func (s *Server) tell(st *stack) {
	n := len(st.hidden)
	if s.Steps > 0 {
		n = min(n, s.Steps)
	}
	st.events = append(st.events, st.hidden[:n]...)
	if st.hidden = st.hidden[n:]; len(st.hidden) == 0 && st.settle != nil {
		st.settle()
		st.settle = nil
	}
}

func (s *Server) scope(tree template, params, physical map[string]string) *scope {
	all := map[string]string{}
	for name, p := range child(tree, "Parameters") {
		if value, ok := p.(map[string]any)["Default"]; ok {
			all[name] = fmt.Sprint(value)
		}
	}
	maps.Copy(all, params)
	suffix := "amazonaws.com"
	if strings.HasPrefix(s.partition(), "aws-cn") {
		suffix += ".cn"
	}
	return &scope{tree, all, map[string]string{
		"AWS::Partition": s.partition(), "AWS::Region": s.region(), "AWS::AccountId": account, "AWS::URLSuffix": suffix, "AWS::StackName": "stack",
	}, physical}
}
