package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
	"github.com/dynalimit/dynalimit/internal/notation"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// An hour is closed a quarter of an hour after its end, or somewhat later if the stream is
// followed periodically. The stream keeps records for a day.
const closedLate, recordsKept = 4 * time.Hour, 24 * time.Hour

// checkUsage reads the record of the last closed hour of usage. It is a Warning if that is more than four hours
// old or cannot be decoded. It is a Hint if no hour was ever closed, and Unchecked if the read fails.
func (v *visit) checkUsage(ctx context.Context) tables.Finding {
	if v.down != "" {
		return tables.CannotCheck("%s", v.down)
	}
	key := schema.NewKeys(v.Namespace).UsageClosed()
	out, err := v.Client.GetItem(ctx, &dynamodb.GetItemInput{TableName: v.table.Input.TableName, Key: key.Attributes(), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return tables.CannotCheck("%s", v.explainError(err))
	}
	cursor, err := schema.DecodeUsageCursor(out.Item)
	if err != nil {
		return tables.Finding{Status: tables.Warning, Found: err.Error(), Means: "hours of usage are not closed", Fix: v.deleteItemCommand(key)}
	}
	if cursor.Closed.IsZero() {
		return tables.Finding{Status: tables.Hint, Found: "no process aggregates it", Means: "usage of entities is unknown: run 'dynalimit tail' or the Lambda, which turn the stream into usage", Fix: v.tailCommand()}
	}
	closed := "hours are closed up to " + clockText(cursor.Closed) + v.usageRetention(ctx)
	late := v.Now().Sub(cursor.Closed)
	if late <= closedLate {
		return tables.Fine("%s", closed)
	}
	means := fmt.Sprintf("nobody has closed any for %s: the stream keeps records for a day, and then they are gone", notation.WaitText(late))
	if late > recordsKept {
		means = fmt.Sprintf("nobody has closed any for %s: records of usage are lost; when the stream is followed again, counters show the usage meanwhile, in the hour of each one's next record", notation.WaitText(late))
	}
	return tables.Finding{Status: tables.Warning, Found: closed, Means: means, Fix: v.tailCommand()}
}

// usageRetention reads the retention of hours of usage and returns it as the end of a sentence, such as ", and
// kept for 90 days". It returns "" if that is not stored or cannot be read.
func (v *visit) usageRetention(ctx context.Context) string {
	out, err := v.Client.GetItem(ctx, &dynamodb.GetItemInput{TableName: v.table.Input.TableName, Key: schema.UsageKept().Attributes(), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return ""
	}
	switch kept, err := schema.DecodeUsageRetention(out.Item); {
	case err != nil || kept.Version == 0:
		return ""
	case kept.Hours == 0:
		return ", and kept for ever"
	default:
		return fmt.Sprintf(", and kept for %.4g days", kept.Hours.Hours()/24)
	}
}

// tailCommand returns the text of the command "dynalimit tail", which follows the stream, with the flags that
// reach the table. It runs nothing.
func (v *visit) tailCommand() string { return v.tableCommand("tail") }
