package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/stack"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// shownEvents is the number of latest events to print.
const shownEvents = 10

type stackStatusCmd struct{ stackName }

// stackStatus is the state of a stack as JSON.
type stackStatus struct {
	Ready     bool             `json:"ready"`
	Stack     *stack.Stack     `json:"stack"`
	Resources []stack.Resource `json:"resources,omitempty"`
	Events    []stack.Event    `json:"events,omitempty"`
}

// Run prints the state, tables, outputs and latest events of a stack. Unless the stack exists and is ready, it
// returns errNo after that.
func (c stackStatusCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.onFormation(ctx, out, func(client *cloudformation.Client) error {
		s, err := stack.Find(ctx, client, c.Name)
		if err != nil {
			return err
		}
		status := stackStatus{Ready: s.Ready(), Stack: s}
		if s != nil {
			if status.Resources, err = stack.Resources(ctx, client, s.ID); err != nil {
				return err
			}
			if status.Events, err = stack.Recent(ctx, client, s.ID, shownEvents); err != nil {
				return err
			}
		}
		err = out.Show(status, func() { c.printStatus(out, status) })
		if err == nil && !status.Ready {
			return errNo
		}
		return err
	})
}

// printStatus prints the status of a stack for people, or that the stack does not exist.
func (c stackStatusCmd) printStatus(out *term.Output, status stackStatus) {
	s := status.Stack
	if s == nil {
		fmt.Fprintf(out, "%s  %s\n  deploy it with 'dynalimit stack deploy %s', or correct --region\n", out.Bold(c.Name), out.Red("there is no such stack here"), c.Name)
		return
	}
	by := ""
	if !s.Ours {
		by = "not deployed with this command"
	}
	facts := []string{
		"reason", s.Reason, "deployed", deployedAt(s).Format("2006-01-02 15:04 MST"), "drift", driftText(s), "protection", onOff(s.Protected), "by", by,
	}
	for _, r := range status.Resources {
		if r.IsTable() {
			facts = append(facts, "table", r.Physical)
		}
	}
	fmt.Fprintf(out, "%s  %s\n", out.Bold(s.Name), statusText(out, s))
	printFields(out, append(facts, "resources", fmt.Sprint(len(status.Resources)))...)
	if len(status.Events) > 0 {
		fmt.Fprintln(out, "  "+out.Dim("latest events"))
	}
	for _, e := range status.Events {
		printStackEvent(out, e)
	}
	printOutputs(out, s.Outputs)
}

// statusText returns the status coloured: yellow while it changes, green if ready, else red.
func statusText(out *term.Output, s *stack.Stack) string {
	switch {
	case s.Running():
		return out.Yellow(s.Status)
	case s.Ready():
		return out.Green(s.Status)
	}
	return out.Red(s.Status)
}

// deployedAt returns the time of the stack's last update or, before the first one, of its creation.
func deployedAt(s *stack.Stack) time.Time {
	if s.Updated != nil {
		return *s.Updated
	}
	return s.Created
}

// driftText returns the drift status in lower case, with the time of its check if there was one.
func driftText(s *stack.Stack) string {
	text := strings.ToLower(strings.ReplaceAll(s.Drift, "_", " "))
	if s.DriftChecked != nil {
		text += ", as of " + s.DriftChecked.Format("2006-01-02 15:04 MST")
	}
	return text
}

// onOff returns "on" for true and "off" for false.
func onOff(yes bool) string {
	if yes {
		return "on"
	}
	return "off"
}

type stackListCmd struct{}

// Run prints the stacks that this command deployed, with status, time of the last deployment and drift.
func (stackListCmd) Run(ctx context.Context, g *globals, out *term.Output) error {
	return g.onFormation(ctx, out, func(client *cloudformation.Client) error {
		all, err := stack.List(ctx, client)
		if err != nil {
			return err
		}
		return out.Show(all, func() {
			if len(all) == 0 {
				fmt.Fprintln(out, "No stack here was deployed with this command. Begin with 'dynalimit stack deploy'.")
				return
			}
			rows := make([][]string, len(all))
			for i, s := range all {
				rows[i] = []string{s.Name, s.Status, deployedAt(s).Format("2006-01-02 15:04"), driftText(s)}
			}
			out.Table([]string{"STACK", "STATUS", "DEPLOYED", "DRIFT"}, rows)
		})
	})
}
