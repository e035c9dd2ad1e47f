package main

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/infra"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

const operations = "../../docs/operations.md"

// fence is a fenced block, with the comment before it.
var fence = regexp.MustCompile("(?ms)(?:^ *<!-- ([^\n]*?) -->\n)?^( *)```([a-z]+)\n(.*?)^ *```$")

// agreeing answers each question with the word that it asks for.
type agreeing struct{ asked *bytes.Buffer }

var wanted = regexp.MustCompile(`Type (\S+) to go on: $`)

// Read is called for each answer.
func (a agreeing) Read(p []byte) (int, error) {
	word := wanted.FindStringSubmatch(a.asked.String())
	if word == nil {
		return 0, io.EOF
	}
	return copy(p, word[1]+"\n"), nil
}

// page plays a page of documentation.
type page struct {
	*stacks
	last   string // what the last block printed
	notRun []string
	ran    map[string]int
}

// TestOperationsPage runs every command of the page, in its order, against an engine and a
// CloudFormation; outputs that are shown are compared.
func TestOperationsPage(t *testing.T) {
	text, err := os.ReadFile(operations)
	require.NoError(t, err)
	s := newStacks(t)
	t.Chdir(t.TempDir())
	s.withBackups()
	p := &page{stacks: s, ran: map[string]int{}}
	blocks := fence.FindAllStringSubmatch(string(text), -1)
	require.Equal(t, strings.Count(string(text), "```"), 2*len(blocks), "every block is found")
	for _, b := range blocks {
		p.block(b[1], b[3], strings.ReplaceAll("\n"+b[4], "\n"+b[2], "\n")[1:])
	}
	assert.LessOrEqual(t, len(p.notRun), 5, "few blocks are not run: %q", p.notRun)
	for _, name := range []string{
		"stack deploy", "stack status", "stack delete", "table create", "table status", "table delete", "template", "manifest plan", "manifest apply",
		"doctor", "check", "top", "migrate", "namespace purge", "namespace delete", "entity delete", "bucket reset", "audit", "limits resolve", "block set",
		"tail", "usage top", "usage list", "usage export",
	} {
		assert.Positive(t, p.ran[name], "the page has no %s", name)
	}
}

func (p *page) block(marker, language, body string) {
	kind, what, _ := strings.Cut(marker, ": ")
	if kind == "later" {
		d, err := time.ParseDuration(what)
		require.NoError(p.t, err)
		p.now = p.now.Add(d)
		kind = ""
	}
	switch {
	case kind == "not run":
		require.NotContains(p.t, "\n"+body, "\ndynalimit ", "what is ours is run")
		require.Greater(p.t, len(what), 10, "the reason")
		p.notRun = append(p.notRun, what)
		if strings.Contains(body, "restore-table-to-point-in-time") {
			p.restore(body)
		}
	case kind == "file":
		require.NoError(p.t, os.WriteFile(what, []byte(body), 0o600))
	case language == "sh":
		require.Empty(p.t, kind, "an unknown marker")
		p.last = ""
		for _, line := range strings.Split(strings.TrimSpace(strings.ReplaceAll(body, "\\\n", " ")), "\n") {
			p.command(line)
		}
	case language == "text":
		assert.Equal(p.t, body, p.last, "what the page shows is what is printed")
	default:
		assert.Fail(p.t, "a block of "+language+" that is neither run nor a file", body)
	}
}

// command runs a line, whose questions are agreed to.
func (p *page) command(line string) {
	rest, ours := strings.CutPrefix(line, "dynalimit ")
	require.True(p.t, ours, "%s: mark the block as not run, with the reason", line)
	var out, notes bytes.Buffer
	ctx := p.context()
	to := &term.Output{Writer: &out, In: agreeing{&notes}}
	code := run(ctx, append([]string{"--endpoint", p.endpoint}, unquoted(rest)...), to, &notes)
	require.Equal(p.t, exitOK, code, "%s\n%s\n%s", line, out.String(), notes.String())
	p.last += out.String()
	p.ran[leafOf(rest)]++
}

// restore does what the AWS CLI is told to: the new table has the items and the indexes of
// the old one, and none of its settings.
func (p *page) restore(body string) {
	names := regexp.MustCompile(`-table-name (\S+)`).FindAllStringSubmatch(body, 2)
	require.Len(p.t, names, 2)
	client, ctx := p.db.Client(), p.t.Context()
	in := p.repository().TableInput()
	in.TableName, in.StreamSpecification = &names[1][1], nil
	_, err := client.CreateTable(ctx, in)
	require.NoError(p.t, err)
	all, err := client.Scan(ctx, &dynamodb.ScanInput{TableName: &names[0][1]})
	require.NoError(p.t, err)
	require.Empty(p.t, all.LastEvaluatedKey)
	for _, item := range all.Items {
		_, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: in.TableName, Item: item})
		require.NoError(p.t, err)
	}
}

// TestRunbookHasEveryAlarm: each alarm that a template makes is a heading of the page, and
// the page has no other.
func TestRunbookHasEveryAlarm(t *testing.T) {
	text, err := os.ReadFile(operations)
	require.NoError(t, err)
	_, runbook, found := strings.Cut(string(text), "\n## Runbook\n")
	require.True(t, found)
	var headings []string
	for _, line := range regexp.MustCompile(`(?m)^### (.*)$`).FindAllStringSubmatch(runbook, -1) {
		headings = append(headings, strings.Split(line[1], ", ")...)
	}
	var alarms []string
	for _, found := range regexp.MustCompile(`\n  (\w+)Alarm:\n    Type: AWS::CloudWatch::Alarm`).FindAllStringSubmatch(infra.CloudFormation(nil), -1) {
		alarms = append(alarms, found[1])
	}
	assert.ElementsMatch(t, alarms, headings)
}
