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

// newProgress returns a progress report that begins now. For its estimates it asks DynamoDB for the number of
// items in the table.
func (g *globals) newProgress(ctx context.Context, out *term.Output) *progress {
	at := now(ctx)
	return &progress{out: out, now: func() time.Time { return now(ctx) }, total: g.countItems(ctx), began: at, told: at}
}

// countItems returns the number of items by DynamoDB's count, which is up to six hours old, or 0 if
// it is unknown.
func (g *globals) countItems(ctx context.Context) int64 {
	return aws.ToInt64(g.describeTable(ctx).ItemCount)
}

// tableCreated returns the creation time of the table. It returns the zero time if that is unknown,
// and for a restored table, whose items are older.
func (g *globals) tableCreated(ctx context.Context) time.Time {
	t := g.describeTable(ctx)
	if t.RestoreSummary != nil {
		return time.Time{}
	}
	return aws.ToTime(t.CreationDateTime)
}

// describeTable returns DynamoDB's description of the table. It is empty after any error, because
// only estimates need it.
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
// the table's size is known. read counts the items of all passes. what describes the results.
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

// estimateText formats the finished share of a pass and its remaining time, or "" if the table's
// size is unknown.
func (p *progress) estimateText(done int64, took time.Duration) string {
	if p.total <= 0 || done <= 0 || done >= p.total {
		return ""
	}
	return fmt.Sprintf(", %d %% of the table, about %s left of this pass", 100*done/p.total, notation.WaitText(timeLeft(done, p.total, took)))
}

// timeLeft extrapolates the remaining time from the time that done of total took. done must be above 0.
func timeLeft(done, total int64, took time.Duration) time.Duration {
	return time.Duration(float64(took) * float64(total-done) / float64(done))
}
