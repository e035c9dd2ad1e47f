package lock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/schema"
	"github.com/dynalimit/dynalimit/internal/table"
)

// Lock is one try to be alone at something. Its fields are set once, before it is used.
type Lock struct {
	Table *table.Table
	// Key is that of the lease.
	Key schema.Key
	// Name is the purpose of the lease, and Holder its holder, for people.
	Name, Holder string
	// Hold is how long the lease lasts after each renewal: so long others wait for a
	// process that died, and Margin.
	Hold time.Duration
	// Now is DynamoDB's time, as far as it is known.
	Now func() time.Time

	token string
}

// Take takes the lease, also if this Lock has it already. It returns a *fault.LockedError while another process
// holds it. After an UnavailableError that is Unconfirmed, call Release.
func (l *Lock) Take(ctx context.Context) error {
	if l.token == "" {
		l.token = rand.Text()
	}
	op := "take the lease of " + l.Name
	err := l.Table.Change(ctx, op, func() (table.Proposal, error) {
		stored, item, err := l.readLease(ctx, op)
		if err != nil {
			return table.Proposal{}, err
		}
		if stored.Token == l.token { // a try before this one made it
			return table.Proposal{}, nil
		}
		next, free := nextLease(stored, l.Holder, l.token, l.Now(), l.Hold)
		if !free {
			return table.Proposal{}, &fault.LockedError{Name: l.Name, Holder: stored.Holder, Until: freeAt(stored)}
		}
		put := l.Table.PutPart(schema.EncodeLease(l.Key, next), schema.LeaseUnchanged(item))
		return table.Proposal{Writes: []types.TransactWriteItem{put}}, nil
	})
	if isUnconfirmed(err) {
		if stored, _, lookErr := l.readLease(context.WithoutCancel(ctx), op); lookErr == nil && stored.Token == l.token {
			return nil
		}
	}
	return err
}

// isUnconfirmed reports whether err is of a change that may have landed.
func isUnconfirmed(err error) bool {
	u, ok := errors.AsType[*fault.UnavailableError](err)
	return ok && u.Unconfirmed
}

// readLease reads the lease and its item; both are zero for an absent one. It fails for a malformed one.
func (l *Lock) readLease(ctx context.Context, op string) (schema.Lease, schema.Item, error) {
	item, err := l.Table.Get(ctx, op, l.Key)
	if err != nil {
		return schema.Lease{}, nil, err
	}
	lease, err := schema.DecodeLease(item)
	if err != nil {
		err = fmt.Errorf("dynalimit: %s: the item %s %s cannot be read: %w; delete it if no process uses it", op, l.Key.PK, l.Key.SK, err)
	}
	return lease, item, err
}

// Renew extends the hold to Hold from now. It returns a *fault.LostError if another process has the lease;
// after any other error the caller may try again.
func (l *Lock) Renew(ctx context.Context) error {
	return l.updateLease(ctx, "renew the lease of "+l.Name, func() schema.Statement {
		return schema.RenewLease(l.token, l.Now().Add(l.Hold).UnixMilli())
	})
}

// Release ends the hold, also after the end of ctx, because others wait. It returns nil if the hold has ended
// before.
func (l *Lock) Release(ctx context.Context) error {
	err := l.updateLease(context.WithoutCancel(ctx), "release the lease of "+l.Name, func() schema.Statement { return schema.ReleaseLease(l.token) })
	if errors.Is(err, fault.ErrLost) {
		return nil
	}
	return err
}

// updateLease updates the lease by a statement that requires the token. After a refusal it reads the lease, and
// returns a *fault.LostError if another process has it.
func (l *Lock) updateLease(ctx context.Context, op string, statement func() schema.Statement) error {
	tried := false
	return l.Table.Change(ctx, op, func() (table.Proposal, error) {
		if tried {
			stored, _, err := l.readLease(ctx, op)
			if err == nil && stored.Token != l.token {
				err = &fault.LostError{Name: l.Name, Holder: stored.Holder}
			}
			if err != nil {
				return table.Proposal{}, err
			}
		}
		tried = true
		return table.Proposal{Writes: []types.TransactWriteItem{l.Table.UpdatePart(l.Key, statement())}}, nil
	})
}
