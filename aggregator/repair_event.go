package aggregator

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/internal/admin"
	"github.com/dynalimit/dynalimit/internal/audit"
	"github.com/dynalimit/dynalimit/internal/ddb"
	"github.com/dynalimit/dynalimit/internal/schema"
)

// defaultEventRetention is how long the events of bookings are kept, as those of other changes.
const defaultEventRetention = 90 * 24 * time.Hour

// usageRepaired is the action in the event of a booking.
const usageRepaired = "usage_repaired"

// check says what is wrong with who books.
func (o *RepairOptions) check() error {
	switch {
	case o.DryRun, o.Principal == "" && o.AllowAnonymous:
		return nil
	case o.Principal == "":
		return invalid("options.Principal", "is not set; say who repairs usage, or allow that nobody is named with RepairOptions.AllowAnonymous")
	}
	if reason := audit.CheckPrincipal(o.Principal); reason != "" {
		return invalid("options.Principal", "%s", reason)
	}
	return nil
}

// trail records who booked what in a namespace.
func (c *Closer) trail(keys schema.Keys, kept time.Duration) *admin.Admin {
	orDefault(&kept, defaultEventRetention)
	return &admin.Admin{
		Table: c.table, Keys: keys, Now: c.options.Now, IDs: &c.ids,
		Events: audit.Layout{Prefix: keys.Prefix(), TTL: schema.TTL, Retention: max(kept, 0), Indexed: true},
	}
}

// booked is what the event of a booking tells, in millitokens.
type booked struct {
	Hour   string           `json:"hour"`
	Booked map[string]int64 `json:"booked_millitokens"`
}

// bookWithEvent books in one transaction with the event of it, so that there is none without
// the other; false if a counter is not what it was. All tries have one token, by which DynamoDB
// knows what it has done already, for ten minutes.
func (r *repair) bookWithEvent(ctx context.Context, of schema.UsageRepair) (bool, error) {
	what := booked{of.Hour.UTC().Format(time.RFC3339), map[string]int64{}}
	for _, b := range of.Bookings {
		what.Booked[b.Limit] = b.Net
	}
	event, key, err := r.trail(r.keys, r.AuditRetention).Record(admin.Deed{
		By: r.Principal, Action: usageRepaired, Target: of.Entity, Resource: of.Resource, After: audit.Fields{"usage": what},
	})
	if err != nil {
		return false, err
	}
	token := strings.TrimPrefix(key.SK, audit.SortPrefix)
	return r.write(ctx, func() error {
		_, err := r.store.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
			ClientRequestToken: &token, TransactItems: []types.TransactWriteItem{r.table.Update(of.Key(), of.Statement()), event},
		}, ddb.WithoutRetries)
		return err
	})
}
