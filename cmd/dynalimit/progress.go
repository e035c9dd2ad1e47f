package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/internal/notation"
)

// noteInterval is the time between two lines of progress.
const noteInterval = 2 * time.Second

// progress reports the progress of a scan of the whole table, at most every two seconds, with
// the remaining time of the pass.
type progress struct {
	out    *term.Output
	now    func() time.Time
	total  int64 // items of the table by DynamoDB's last count; 0 if unknown
	began  time.Time
	told   time.Time
	pass   int
	before int64 // items read before the pass
}

// newProgress returns a progress report that begins now, for a scan of the whole table. It asks DynamoDB for
// the number of items in the table; without an answer the report has no estimates.
func (g *globals) newProgress(ctx context.Context, out *term.Output) *progress {
	at := now(ctx)
	return &progress{out: out, now: func() time.Time { return now(ctx) }, total: g.countItems(ctx), began: at, told: at}
}

// countItems asks DynamoDB for the number of items in the table, which is up to six hours old. It returns 0 if
// that is unknown.
func (g *globals) countItems(ctx context.Context) int64 {
	return aws.ToInt64(g.describeTable(ctx).ItemCount)
}

// tableCreated asks DynamoDB for the creation time of the table. It returns the zero time if that is unknown,
// and for a restored table, whose items are older.
func (g *globals) tableCreated(ctx context.Context) time.Time {
	t := g.describeTable(ctx)
	if t.RestoreSummary != nil {
		return time.Time{}
	}
	return aws.ToTime(t.CreationDateTime)
}

// describeTable asks DynamoDB for the description of the table. After any error, also for lack of permission,
// it returns an empty description, because only estimates need it.
func (g *globals) describeTable(ctx context.Context) types.TableDescription {
	client, err := g.connectOptions(ctx).Client(ctx)
	if err != nil {
		return types.TableDescription{}
	}
	described, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(g.Table)})
	if err != nil || described.Table == nil {
		return types.TableDescription{} // an estimate does not justify a permission
	}
	return *described.Table
}

// reportPass notes the progress of a pass, at most every two seconds, with the remaining time of the pass if
// the table's size is known. read counts the items of all passes so far; the note ends with what, a text about
// the results.
func (p *progress) reportPass(pass int, read int64, what string) {
	at := p.now()
	if pass != p.pass {
		p.pass, p.before, p.began = pass, read, at
	}
	if at.Sub(p.told) < noteInterval {
		return
	}
	p.told = at
	p.out.Notef("dynalimit: pass %d: %s items read%s, %s", pass, strconv.FormatInt(read, 10), p.estimateText(read-p.before, at.Sub(p.began)), what)
}

// estimateText formats the finished share of a pass and its remaining time. done is the items read in the pass,
// which took so long. It returns "" if the table's size is unknown or already exceeded.
func (p *progress) estimateText(done int64, took time.Duration) string {
	if p.total <= 0 || done <= 0 || done >= p.total {
		return ""
	}
	return fmt.Sprintf(", %d %% of the table, about %s left of this pass", 100*done/p.total, notation.WaitText(timeLeft(done, p.total, took)))
}

// timeLeft estimates the remaining time at the same speed, if done of total took the time took. done must be
// above 0.
func timeLeft(done, total int64, took time.Duration) time.Duration {
	return time.Duration(float64(took) * float64(total-done) / float64(done))
}
