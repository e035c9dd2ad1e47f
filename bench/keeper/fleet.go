package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/dynalimit/dynalimit/bench/internal/program"
	"github.com/dynalimit/dynalimit/ddbmem"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// used is the usage of a store and of keepers.
type used struct {
	Meter                   ddbmem.Meter
	Store, Keepers, Clients time.Duration // of the processors
	Bytes, Items            int64         // of the table of usage
	Transactions, Conflicts int64         // transactions, and the part that met another; counted with -busy alone
}

// minus returns the usage since an earlier one.
func (u used) minus(o used) used {
	return used{
		u.Meter.Sub(o.Meter), u.Store - o.Store, u.Keepers - o.Keepers, u.Clients - o.Clients,
		u.Bytes - o.Bytes, u.Items - o.Items, u.Transactions - o.Transactions, u.Conflicts - o.Conflicts,
	}
}

// part is the store or a keeper: its address, a function for its usage so far, and one that ends it.
type part struct {
	endpoint  string
	transport http.RoundTripper
	look      func() (used, error)
	end       func() error
}

// direct calls a handler without TCP, for virtual time.
type direct struct{ http.Handler }

// RoundTrip calls the handler in this process and returns its recorded answer, never an error.
func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

// task describes a part: a keeper on the store at an endpoint or, without an endpoint, the store.
type task struct {
	Settings settings
	Endpoint string
	Keys     string // in the form of credentials.ParseKeySet
}

// open makes the store, or a keeper if t has an endpoint, in this process, and returns its handler. The store
// has latency from the first call of look on; a keeper also sweeps if the settings say so. The client store
// sends a keeper's requests; nil means the usual transport.
func (t task) open(store aws.HTTPClient) (http.Handler, part, error) {
	if t.Endpoint == "" {
		var options []ddbmem.Option
		if t.Settings.Partitions {
			options = append(options, ddbmem.WithPartitions(1000, 3000))
		}
		db, h := ddbmem.New(options...), newHot(t.Settings.Latency, t.Settings.Busy)
		return db, part{
			look: func() (used, error) { return h.readUsage(db) },
			end:  func() error { db.Close(); return nil },
		}, nil
	}
	keys, err := credentials.ParseKeySet([]byte(t.Keys))
	if err != nil {
		return nil, part{}, err
	}
	n, err := openNode(program.NewClient(t.Endpoint, store), keys, t.Settings)
	if err != nil {
		return nil, part{}, err
	}
	n.startSweeps(t.Settings.Sweep)
	return n.server, part{look: func() (used, error) { return used{Keepers: processorTime()}, nil }, end: n.close}, nil
}

// work is the main function of a process that runs the store or a keeper. It reports its address, and then
// answers each order with its usage, until the orders end. Then it closes the server and the part.
func work(ctx context.Context, orders *json.Decoder, answers *json.Encoder) error {
	var t task
	if err := orders.Decode(&t); err != nil {
		return err
	}
	handler, p, err := t.open(nil)
	if err != nil {
		return err
	}
	endpoint, end, err := program.Serve(ctx, handler)
	if err != nil {
		return errors.Join(err, p.end())
	}
	err = answers.Encode(endpoint)
	for order := ""; err == nil && orders.Decode(&order) == nil; {
		var u used
		if u, err = p.look(); err == nil {
			err = answers.Encode(u)
		}
	}
	return errors.Join(err, end(), p.end())
}

// fleet is a store, and the processes of a keeper on it.
type fleet struct {
	settings
	transport *http.Transport // to parts in other processes
	store     part
	keepers   []part
	targets   []target
}

// startPart starts the store or a keeper and waits for its address. In virtual time it runs in this process,
// else in a process of its own.
func (f *fleet) startPart(ctx context.Context, t task) (part, error) {
	if f.Virtual {
		handler, p, err := t.open(&http.Client{Transport: f.store.transport})
		p.endpoint, p.transport = "http://part", direct{handler}
		return p, err
	}
	child, err := program.StartChild(ctx, t)
	p := part{transport: f.transport, end: child.Stop, look: func() (u used, err error) {
		return u, errors.Join(child.SendOrder("look"), child.ReadAnswer(&u))
	}}
	if err == nil {
		err = child.ReadAnswer(&p.endpoint)
	}
	return p, err
}

// openFleet starts the store with its tables, then the keepers, and logs the targets in. The caller must stop
// the fleet even after an error.
func openFleet(ctx context.Context, s settings) (f *fleet, err error) {
	f = &fleet{settings: s, transport: &http.Transport{MaxIdleConnsPerHost: s.Clients, DisableCompression: true}}
	if f.store, err = f.startPart(ctx, task{Settings: s}); err != nil {
		return f, err
	}
	keys, err := credentials.NewKeySet(nil, time.Now())
	if err != nil {
		return f, err
	}
	if f.targets, err = prepare(ctx, program.NewClient(f.store.endpoint, &http.Client{Transport: f.store.transport}), keys, s); err != nil {
		return f, err
	}
	if _, err := f.store.look(); err != nil {
		return f, err
	}
	for range s.Processes {
		k, err := f.startPart(ctx, task{Settings: s, Endpoint: f.store.endpoint, Keys: keys.Document().Reveal()})
		f.keepers = append(f.keepers, k)
		if err != nil {
			return f, err
		}
		s.Sweep = 0 // the first does it
	}
	return f, f.logIn(ctx)
}

// readUsage returns the usage so far: the store's, the processor time of the keepers, and that of this process.
func (f *fleet) readUsage() (used, error) {
	sum, err := f.store.look()
	for _, k := range f.keepers {
		u, failed := k.look()
		sum.Keepers, err = sum.Keepers+u.Keepers, errors.Join(err, failed)
	}
	sum.Clients = processorTime()
	return sum, err
}

// stop ends the keepers, then the store, and joins their errors. Parts that never started are
// skipped.
func (f *fleet) stop() error {
	var err error
	for _, p := range append(f.keepers, f.store) {
		if p.end != nil {
			err = errors.Join(err, p.end())
		}
	}
	f.transport.CloseIdleConnections()
	return err
}

// pause waits for d: by the runtime's timers in virtual time, else by pause, the more exact one of
// the system.
func (f *fleet) pause(d time.Duration) {
	if f.Virtual {
		<-time.After(d)
		return
	}
	pause(d)
}

// The runs of one measurement. They share no records.
const (
	warmingUp uint32 = iota + 1
	measuring
)

// measure starts a fleet, warms it up, loads it for s.For, and returns the report of that time. It
// stops the fleet.
func measure(ctx context.Context, s settings) (_ *report, err error) {
	f, err := openFleet(ctx, s)
	defer func() { err = errors.Join(err, f.stop()) }()
	if err != nil {
		return nil, err
	}
	rates := [kinds]float64{selection: s.Select, submission: s.Submit}
	f.run(ctx, warmingUp, newSchedule(^s.Seed, rates, s.WarmUp))
	before, err := f.readUsage()
	if err != nil {
		return nil, err
	}
	came := f.run(ctx, measuring, newSchedule(s.Seed, rates, s.For))
	after, err := f.readUsage()
	if err != nil {
		return nil, err
	}
	return newReport(s, came, after.minus(before)), ctx.Err()
}

// processorTime returns the processor time of this process so far, or 0 if it is unknown.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
