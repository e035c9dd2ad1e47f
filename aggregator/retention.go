package aggregator

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/schema"
)

// retentionTTL is for how long a process goes by the retention that it has read. A change is in
// force after it: see admin.Usage.SetRetention.
const retentionTTL = 10 * time.Minute

// tableRetention is how long a table's usage is kept. The table says so: the first process that
// writes usage stores its own, and each later one obeys that.
type tableRetention struct {
	client DynamoDB
	table  string
	// hoursOnly means that only the retention of hours is known here, and stored.
	hoursOnly bool
	// own is the retention that this process stores if the table has none. asked has the fields that
	// its user set; the others are 0.
	own, asked Retention
	// differs is called once if the stored retention differs from the wanted one.
	differs func(stored Retention)

	mu     sync.Mutex
	stored schema.UsageRetention
	readAt time.Time
	heard  bool
}

// newTableRetention returns the retention of a table, which it has not read yet. The argument asked has the
// fields that the user set, 0 for the others. The method current calls differs, which may be nil, once if the
// table stores other values.
func newTableRetention(client DynamoDB, table string, asked Retention, differs func(Retention)) *tableRetention {
	own := Retention{
		Hours: cmp.Or(asked.Hours, defaultRetention), Days: cmp.Or(asked.Days, defaultRetentionDays), Months: cmp.Or(asked.Months, -1),
	}
	if differs == nil {
		differs = func(Retention) {}
	}
	return &tableRetention{client: client, table: table, own: own, asked: asked, differs: differs}
}

// current returns the table's retention. It reads it at most every 10 minutes, holding r.mu, and returns the
// last one if the read fails. It stores this process's own if none is stored, and calls differs once if the
// stored one is not as the user asked.
func (r *tableRetention) current(ctx context.Context) (schema.UsageRetention, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stored.Version > 0 && time.Since(r.readAt) < retentionTTL {
		return r.stored, nil
	}
	stored, err := r.readStored(ctx)
	if err == nil && (stored.Version == 0 || stored.HoursOnly && !r.hoursOnly) {
		stored, err = r.storeOwn(ctx)
	}
	switch {
	case err != nil && r.stored.Version > 0:
		return r.stored, nil
	case err != nil:
		return schema.UsageRetention{}, err
	}
	r.stored, r.readAt = stored, time.Now()
	if !r.heard && r.differsFrom(stored) {
		r.heard = true
		r.differs(publicRetention(stored))
	}
	return stored, nil
}

// readStored reads the stored retention, consistently. It is zero if none is stored.
func (r *tableRetention) readStored(ctx context.Context) (schema.UsageRetention, error) {
	out, err := boundRequest(ctx, r.client.GetItem, &dynamodb.GetItemInput{
		TableName: &r.table, Key: schema.UsageKept().Attributes(), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return schema.UsageRetention{}, err
	}
	return schema.DecodeUsageRetention(out.Item)
}

// storeOwn stores this process's own retention in the fields that the table lacks, and returns the stored
// retention after that.
func (r *tableRetention) storeOwn(ctx context.Context) (schema.UsageRetention, error) {
	own := schema.UsageRetention{Hours: inSeconds(r.own.Hours), Days: inSeconds(r.own.Days), Months: inSeconds(r.own.Months), Version: 1, HoursOnly: r.hoursOnly}
	st := own.SetMissing()
	out, err := boundRequest(ctx, r.client.UpdateItem, &dynamodb.UpdateItemInput{
		TableName: &r.table, Key: schema.UsageKept().Attributes(), UpdateExpression: &st.Update,
		ExpressionAttributeNames: st.Names, ExpressionAttributeValues: st.Values, ReturnValues: types.ReturnValueAllNew,
	})
	if err != nil {
		return schema.UsageRetention{}, err
	}
	return schema.DecodeUsageRetention(out.Attributes)
}

// differsFrom reports whether the user set another retention than the stored one. It ignores fields that the
// user did not set or the table does not store.
func (r *tableRetention) differsFrom(stored schema.UsageRetention) bool {
	differ := func(asked, stored time.Duration) bool { return asked != 0 && inSeconds(asked) != stored }
	return differ(r.asked.Hours, stored.Hours) || !stored.HoursOnly && differ(r.asked.Days, stored.Days) || !stored.HoursOnly && differ(r.asked.Months, stored.Months)
}

// inSeconds returns a retention rounded up to whole seconds, as the table stores it. A negative one, which
// means for ever, becomes 0.
func inSeconds(kept time.Duration) time.Duration {
	return max(0, (kept + time.Second - 1).Truncate(time.Second))
}

// publicRetention returns the table's stored retention of hours, days and months as a Retention for callers.
// Each is -1 if kept for ever, and 0 if not stored yet.
func publicRetention(r schema.UsageRetention) (to Retention) {
	to.Hours, to.Days, to.Months = r.Spans()
	return to
}
