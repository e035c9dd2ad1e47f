package keeper

import (
	"context"
	"errors"
	"time"

	"github.com/dynalimit/dynalimit/ddbmem"
)

// The runs of one measurement; records of one are none of the other's.
const (
	warmingUp uint32 = iota + 1
	measuring
)

// used is what was used while it was measured.
type used struct {
	meter                   ddbmem.Meter
	store, keepers, clients time.Duration // of the processors
	size                    size          // that the table of usage grew by
	transactions, conflicts int64
}

// measure loads a fleet once.
func measure(ctx context.Context, s settings) (_ *report, err error) {
	f, err := open(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.stop(context.WithoutCancel(ctx))) }()
	l := &load{targets: f.targets, pause: pause}
	if s.Virtual {
		l.pause = idle
	}
	for i := range s.Clients {
		l.clients = append(l.clients, f.dial(i))
	}
	defer l.close()
	if err := l.logIn(ctx); err != nil {
		return nil, err
	}
	rates := [kinds]float64{selection: s.Select, submission: s.Submit}
	l.run(ctx, warmingUp, newSchedule(^s.Seed, rates, s.WarmUp))
	before, err := f.look(ctx)
	if err != nil {
		return nil, err
	}
	came := l.run(ctx, measuring, newSchedule(s.Seed, rates, s.For))
	after, err := f.look(ctx)
	if err != nil {
		return nil, err
	}
	return newReport(s, came, after.minus(before)), ctx.Err()
}

// open makes the fleet that the settings ask for.
func open(ctx context.Context, s settings) (*fleet, error) {
	if s.Virtual {
		return inside(ctx, s)
	}
	return outside(ctx, s)
}

// look is what was used so far.
func (f *fleet) look(ctx context.Context) (u used, err error) {
	large, err := f.size(ctx)
	if err != nil {
		return u, err
	}
	store, keepers, err := f.read()
	if err != nil {
		return u, err
	}
	return used{
		meter: store.Meter, store: store.CPU, keepers: keepers.CPU, clients: cpu(), size: large,
		transactions: store.Transactions, conflicts: store.Conflicts,
	}, nil
}

func (u used) minus(o used) used {
	return used{
		meter: u.meter.Sub(o.meter), store: u.store - o.store, keepers: u.keepers - o.keepers, clients: u.clients - o.clients,
		size: size{u.size.bytes - o.size.bytes, u.size.items - o.size.items}, transactions: u.transactions - o.transactions, conflicts: u.conflicts - o.conflicts,
	}
}
