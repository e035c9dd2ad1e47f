package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// tellEvery is the time between two lines of progress.
const tellEvery = 2 * time.Second

// progress tells how far something is that looks through the whole table, at most every
// two seconds, and how long one look may still take.
type progress struct {
	out    *term.Output
	now    func() time.Time
	total  int64 // items of the table, as DynamoDB counted them last; 0 for unknown
	began  time.Time
	told   time.Time
	pass   int
	before int64 // what was read before the pass
}

// watch begins to tell.
func (g *globals) watch(ctx context.Context, out *term.Output) *progress {
	at := now(ctx)
	return &progress{out: out, now: func() time.Time { return now(ctx) }, total: g.items(ctx), began: at, told: at}
}

// items is how many items the table has, by DynamoDB's count, which is up to six hours
// old; 0 where it is not told.
func (g *globals) items(ctx context.Context) int64 {
	return aws.ToInt64(g.described(ctx).ItemCount)
}

// began is when the table was made; zero where that is not told, and for a table that was
// restored: what it holds is older.
func (g *globals) began(ctx context.Context) time.Time {
	t := g.described(ctx)
	if t.RestoreSummary != nil {
		return time.Time{}
	}
	return aws.ToTime(t.CreationDateTime)
}

// described is what DynamoDB tells of the table; nothing where it does not.
func (g *globals) described(ctx context.Context) types.TableDescription {
	client, err := g.options(ctx).Client(ctx)
	if err != nil {
		return types.TableDescription{}
	}
	described, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(g.Table)})
	if err != nil || described.Table == nil {
		return types.TableDescription{} // an estimate is not worth a permission
	}
	return *described.Table
}

// tell tells of a pass that has read items, in all passes.
func (p *progress) tell(pass int, read int64, what string) {
	at := p.now()
	if pass != p.pass {
		p.pass, p.before, p.began = pass, read, at
	}
	if at.Sub(p.told) < tellEvery {
		return
	}
	p.told = at
	p.out.Notef("dynalimit: pass %d: %s items read%s, %s", pass, strconv.FormatInt(read, 10), p.estimate(read-p.before, at.Sub(p.began)), what)
}

// estimate is the share of a pass that is done, and how long the rest of it may take.
func (p *progress) estimate(done int64, took time.Duration) string {
	if p.total <= 0 || done <= 0 || done >= p.total {
		return ""
	}
	return fmt.Sprintf(", %d %% of the table, about %s left of this pass", 100*done/p.total, notation.Wait(left(done, p.total, took)))
}

// left is how long the rest takes if it goes on as what was done in some time.
func left(done, total int64, took time.Duration) time.Duration {
	return time.Duration(float64(took) * float64(total-done) / float64(done))
}
