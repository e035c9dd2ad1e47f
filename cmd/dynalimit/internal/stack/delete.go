package stack

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"go.yaml.in/yaml/v3"
)

// Farewell is the effect of deleting a stack.
type Farewell struct {
	Stack string `json:"stack"`
	// Stays are the retained resources, including tables. Goes are the deleted ones.
	Stays []Resource `json:"stays"`
	Goes  []Resource `json:"goes"`
	// Protected is true if termination protection is on.
	Protected bool `json:"termination_protection"`
}

// PreviewDelete returns the resources that a deletion of the stack would keep and delete, and deletes nothing.
// It reads them and the template. It fails if a table would be deleted, because templates of this program keep
// their tables.
func PreviewDelete(ctx context.Context, client *cloudformation.Client, s *Stack) (*Farewell, error) {
	resources, err := Resources(ctx, client, s.ID)
	if err != nil {
		return nil, err
	}
	out, err := client.GetTemplate(ctx, &cloudformation.GetTemplateInput{StackName: &s.ID, TemplateStage: types.TemplateStageProcessed})
	if err != nil {
		return nil, requestError("read the template of "+s.Name, s.Name, err)
	}
	var template struct {
		Resources map[string]struct {
			DeletionPolicy string `yaml:"DeletionPolicy"`
		} `yaml:"Resources"`
	}
	if err := yaml.Unmarshal([]byte(aws.ToString(out.TemplateBody)), &template); err != nil {
		return nil, fmt.Errorf("the template of %s cannot be read, so the retained resources are unknown: %w", s.Name, err)
	}
	f := &Farewell{Stack: s.Name, Stays: []Resource{}, Goes: []Resource{}, Protected: s.Protected}
	var lost []string
	for _, r := range resources {
		stays := strings.HasPrefix(template.Resources[r.Logical].DeletionPolicy, "Retain")
		switch {
		case r.Status == string(types.ResourceStatusDeleteComplete) || r.Physical == "":
		case stays:
			f.Stays = append(f.Stays, r)
		case r.IsTable():
			lost = append(lost, r.Physical)
		default:
			f.Goes = append(f.Goes, r)
		}
	}
	if len(lost) > 0 {
		next := "deploy it again first, which does"
		if slices.Contains(dead, types.StackStatus(s.Status)) {
			next = "save what is in them, and delete it where it was made"
		}
		return nil, fmt.Errorf("the tables %s would be deleted with the stack %s, for its template does not retain them: %s; nothing was deleted", strings.Join(lost, ", "), s.Name, next)
	}
	return f, nil
}

// Delete deletes a stack and waits until it is gone; another end is an *EndError. It turns termination
// protection off first, and on again if the deletion cannot begin.
func Delete(ctx context.Context, client *cloudformation.Client, s *Stack) error {
	if err := beginDelete(ctx, client, s); err != nil {
		return err
	}
	return Wait(ctx, client, s.Name, s.ID)
}

// beginDelete turns termination protection off, if s has it, and starts the deletion of the stack without
// waiting. If the deletion is refused, it restores the protection, even after ctx has ended.
func beginDelete(ctx context.Context, client *cloudformation.Client, s *Stack) (err error) {
	if s.Protected {
		err = Protect(ctx, client, s.Name, false)
	}
	if err == nil {
		_, err = client.DeleteStack(ctx, &cloudformation.DeleteStackInput{StackName: &s.ID})
		err = requestError("delete the stack "+s.Name, s.Name, err)
	}
	if err == nil || !s.Protected {
		return err
	}
	again, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	if problem := Protect(again, client, s.Name, true); problem != nil {
		return fmt.Errorf("%w; its termination protection could not be put back: %w", err, problem)
	}
	return err
}

// CleanUp deletes the rest of a stack after a failed creation or deletion, and waits for the end. It refuses to
// delete a table. Unlike Delete it leaves termination protection on, so a protected stack stays.
func CleanUp(ctx context.Context, client *cloudformation.Client, s *Stack) error {
	if _, err := PreviewDelete(ctx, client, s); err != nil {
		return err
	}
	left := *s
	left.Protected = false // do not turn protection off
	return Delete(ctx, client, &left)
}
