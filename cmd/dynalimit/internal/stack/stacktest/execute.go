package stacktest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func (s *Server) executeChangeSet(form url.Values) ([]element, *fault) {
	st, c, err := s.changeSet(form)
	if err != nil {
		return nil, err
	}
	if c.status != "CREATE_COMPLETE" {
		return nil, &fault{"InvalidChangeSetStatus", fmt.Sprintf("ChangeSet [%s] cannot be executed in its current status of [%s]", c.id, c.status), 400}
	}
	if st.status != "REVIEW_IN_PROGRESS" && !updatable(st.status) {
		return nil, invalid("Stack:%s is in %s state and can not be updated.", st.id, st.status)
	}
	for _, other := range st.sets {
		other.status = "OBSOLETE"
	}
	verb := "UPDATE"
	if c.kind == "CREATE" {
		verb, st.body, st.params, st.tags, st.role = "CREATE", c.body, c.params, c.tags, c.role
	}
	st.status, st.reason = verb+"_IN_PROGRESS", "User Initiated"
	s.noteStack(st, st.status, st.reason)
	if failed := s.carryOut(st, c); failed != "" {
		s.rollBack(st, verb, failed)
		return nil, nil
	}
	st.body, st.params, st.tags, st.role, st.made = c.body, c.params, c.tags, c.role, c.next
	if tree, err := parse(c.body); err == nil { // now what refers to something made has its name
		st.made, _ = s.scope(tree, c.params, st.physical).resources()
	}
	if verb == "UPDATE" {
		st.updated = s.now()
	}
	s.noteStack(st, verb+"_COMPLETE", "")
	st.settle = func() { st.status, st.reason = verb+"_COMPLETE", "" }
	return nil, nil
}

// carryOut makes the changes, and returns the resource that could not be changed.
func (s *Server) carryOut(st *stack, c *changeSet) (failed string) {
	for _, ch := range c.changes {
		verb := map[string]string{"Add": "CREATE", "Modify": "UPDATE", "Remove": "DELETE"}[ch.action]
		physical := ch.physical
		if ch.action == "Add" {
			physical = s.physicalOf(st, ch.logical, c.next[ch.logical])
		}
		s.note(st, ch.logical, physical, ch.kind, verb+"_IN_PROGRESS", "")
		reason := s.Fail[ch.logical]
		if reason == "" && ch.action == "Add" && ch.kind == tableType && s.DynamoDB != nil {
			if err := s.makeTable(c.next[ch.logical].properties); err != nil {
				reason = err.Error()
			}
		}
		if reason != "" {
			s.note(st, ch.logical, physical, ch.kind, verb+"_FAILED", reason)
			return ch.logical
		}
		st.physical[ch.logical] = physical
		if ch.action == "Remove" {
			delete(st.physical, ch.logical)
		}
		s.note(st, ch.logical, physical, ch.kind, verb+"_COMPLETE", "")
	}
	return ""
}

func (s *Server) physicalOf(st *stack, logical string, r resource) string {
	for _, property := range []string{"TableName", "RoleName", "ManagedPolicyName", "AlarmName"} {
		if name, ok := r.properties[property].(string); ok {
			return name
		}
	}
	return st.name + "-" + logical
}

func (s *Server) rollBack(st *stack, verb, failed string) {
	reason := fmt.Sprintf("The following resource(s) failed to %s: [%s].", map[string]string{"CREATE": "create", "UPDATE": "update"}[verb], failed)
	begun, ended := "ROLLBACK_IN_PROGRESS", "ROLLBACK_COMPLETE"
	if verb == "UPDATE" {
		begun, ended = "UPDATE_"+begun, "UPDATE_"+ended
	}
	s.noteStack(st, begun, reason+" Rollback requested by user.")
	s.noteStack(st, ended, "")
	st.settle = func() { st.status, st.reason = ended, reason }
}

// makeTable makes a table as its properties say.
func (s *Server) makeTable(properties map[string]any) error {
	body, err := json.Marshal(properties)
	if err != nil {
		return err
	}
	// The properties are named as the fields of the API, apart from these.
	var extra struct {
		TimeToLiveSpecification          *types.TimeToLiveSpecification
		PointInTimeRecoverySpecification *types.PointInTimeRecoverySpecification
		StreamSpecification              *types.StreamSpecification
		DeletionProtectionEnabled        any
	}
	if err := json.Unmarshal(body, &extra); err != nil {
		return err
	}
	rest := map[string]any{}
	for name, value := range properties {
		if !slices.Contains([]string{"TimeToLiveSpecification", "PointInTimeRecoverySpecification", "DeletionProtectionEnabled", "SSESpecification"}, name) {
			rest[name] = value
		}
	}
	if body, err = json.Marshal(rest); err != nil {
		return err
	}
	var in dynamodb.CreateTableInput
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	if in.StreamSpecification != nil {
		in.StreamSpecification.StreamEnabled = aws.Bool(true)
	}
	in.DeletionProtectionEnabled = aws.Bool(fmt.Sprint(extra.DeletionProtectionEnabled) == "true")
	ctx := context.Background()
	if _, err := s.DynamoDB.CreateTable(ctx, &in); err != nil {
		return err
	}
	if extra.TimeToLiveSpecification != nil {
		if _, err := s.DynamoDB.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{TableName: in.TableName, TimeToLiveSpecification: extra.TimeToLiveSpecification}); err != nil {
			return err
		}
	}
	if extra.PointInTimeRecoverySpecification == nil {
		return nil
	}
	_, err = s.DynamoDB.UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{TableName: in.TableName, PointInTimeRecoverySpecification: extra.PointInTimeRecoverySpecification})
	return err
}

func (s *Server) deleteStack(form url.Values) ([]element, *fault) {
	st := s.find(form.Get("StackName"))
	if st == nil {
		return nil, nil // as CloudFormation: it is gone
	}
	if st.protected {
		return nil, invalid("Stack [%s] cannot be deleted while TerminationProtection is enabled", st.name)
	}
	st.status, st.reason = "DELETE_IN_PROGRESS", "User Initiated"
	s.noteStack(st, st.status, st.reason)
	for _, name := range sortedKeys(st.physical) {
		r := st.made[name]
		switch {
		case s.Fail[name] != "":
			s.note(st, name, st.physical[name], r.kind, "DELETE_FAILED", s.Fail[name])
			s.noteStack(st, "DELETE_FAILED", "The following resource(s) failed to delete: ["+name+"].")
			st.settle = func() { st.status, st.reason = "DELETE_FAILED", "" }
			return nil, nil
		case r.policy == "Retain":
			s.note(st, name, st.physical[name], r.kind, "DELETE_SKIPPED", "")
		default:
			s.note(st, name, st.physical[name], r.kind, "DELETE_COMPLETE", "")
		}
	}
	s.noteStack(st, "DELETE_COMPLETE", "")
	st.settle = func() { st.status, st.reason = "DELETE_COMPLETE", "" }
	if len(st.made) == 0 { // nothing has to be waited for
		st.events, st.hidden = append(st.events, st.hidden...), nil
		st.settle()
		st.settle = nil
	}
	return nil, nil
}
