package dynalimit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/observe"
)

// degradedLeases writes a line in CloudWatch's embedded metric format
// for each call that was admitted without its buckets. Where a service's standard output is
// collected by CloudWatch, each line counts in the metric that the alarm of the templates
// is on: DegradedLeases of the table, in the namespace dynalimit.
type degradedLeases struct {
	out   io.Writer
	table string
	now   func() time.Time
}

func (d degradedLeases) acquireEnd(_ context.Context, e observe.AcquireEnd) {
	if !e.Degraded {
		return
	}
	line := must(json.Marshal(map[string]any{
		"TableName": d.table, "DegradedLeases": 1,
		"_aws": map[string]any{
			"Timestamp": d.now().UnixMilli(),
			"CloudWatchMetrics": []any{map[string]any{
				"Namespace": "dynalimit", "Dimensions": [][]string{{"TableName"}},
				"Metrics": []any{map[string]string{"Name": "DegradedLeases", "Unit": "Count"}},
			}},
		},
	}))
	_, _ = fmt.Fprintf(d.out, "%s\n", line) // one write, so that lines do not mix
}

// A service publishes how many calls were admitted because DynamoDB did not answer.
func ExampleOptions_metrics() {
	ctx := context.Background()
	db := ddbmem.New()
	repo := must(dynalimit.NewRepository(db.Client(), "limits", standingStill))
	check(repo.CreateTable(ctx))
	limiter := must(dynalimit.New(repo, &dynalimit.Options{
		Limits:        []dynalimit.Limit{dynalimit.PerMinute("rpm", 10)},
		OnUnavailable: dynalimit.Allow, Timeout: 2 * time.Second,
		Observer: observe.Observer{AcquireEnd: degradedLeases{os.Stdout, repo.Table(), standingStill.Now}.acquireEnd},
	}))
	must(limiter.Acquire(ctx, "user-123", "gpt-4", dynalimit.Amounts{"rpm": 1}))
	db.SetFaults(func(*ddbmem.Request) ddbmem.Fault { return ddbmem.Fault{Drop: true} })
	defer func() { db.SetFaults(nil); check(limiter.Close(ctx)) }()
	must(limiter.Acquire(ctx, "user-123", "gpt-4", dynalimit.Amounts{"rpm": 1}))
	// Output:
	// {"DegradedLeases":1,"TableName":"limits","_aws":{"CloudWatchMetrics":[{"Dimensions":[["TableName"]],"Metrics":[{"Name":"DegradedLeases","Unit":"Count"}],"Namespace":"dynalimit"}],"Timestamp":1772442000000}}
}
