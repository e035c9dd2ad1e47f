package keeper

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/dynalimit/dynalimit/bench/internal/program"
	"github.com/dynalimit/dynalimit/budget/credentials"
	"github.com/dynalimit/dynalimit/ddbmem"
)

// role marks a process as one of a fleet. It reads its task, one JSON object,
// says where it listens, answers each further line with what it used, and ends with its
// input.
const role = "DYNALIMIT_KEEPER_PROCESS"

// task is what a process is to be: the store, or without Store a keeper on it.
type task struct {
	Store    bool     `json:"store"`
	Settings settings `json:"settings"`
	Endpoint string   `json:"endpoint"` // of the store
	Keys     string   `json:"keys"`     // as credentials.ParseKeySet reads them
	Sweeps   bool     `json:"sweeps"`
}

// place says where a process listens.
type place struct {
	Address string `json:"address"`
}

func work(ctx context.Context, in io.Reader, out io.Writer) error {
	orders, answers := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	var t task
	if err := orders.Decode(&t); err != nil {
		return err
	}
	if t.Store {
		return t.store(ctx, orders, answers)
	}
	return t.keep(ctx, orders, answers)
}

// store serves ddbmem, without latency until the first order.
func (t task) store(ctx context.Context, orders *json.Decoder, answers *json.Encoder) error {
	db := ddbmem.New()
	defer db.Close()
	address, end, err := listen(ctx, db)
	if err != nil {
		return err
	}
	err = answers.Encode(place{address})
	h := newHot(t.Settings.Latency, t.Settings.Busy)
	var order string
	for err == nil && orders.Decode(&order) == nil {
		db.SetFaults(h.fault)
		r := h.read(db)
		r.CPU = cpu()
		err = answers.Encode(r)
	}
	return errors.Join(err, end())
}

// keep serves the API.
func (t task) keep(ctx context.Context, orders *json.Decoder, answers *json.Encoder) error {
	keys, err := credentials.ParseKeySet([]byte(t.Keys))
	if err != nil {
		return err
	}
	transport := &http.Transport{MaxIdleConns: 256, MaxIdleConnsPerHost: 256}
	defer transport.CloseIdleConnections()
	n, err := openNode(remote(t.Endpoint, transport), keys, t.Settings)
	if err != nil {
		return err
	}
	if t.Sweeps && t.Settings.Sweep > 0 {
		n.sweep(t.Settings.Sweep)
	}
	address, end, err := listen(ctx, n.server)
	if err != nil {
		return errors.Join(err, n.close(ctx))
	}
	err = answers.Encode(place{address})
	var order string
	for err == nil && orders.Decode(&order) == nil {
		err = answers.Encode(reading{CPU: cpu()})
	}
	return errors.Join(err, end(), n.close(ctx))
}

// process is one of a fleet, in the hands of who started it.
type process struct {
	*program.Child
	answers *json.Decoder
	orders  *json.Encoder
	address string
}

func start(ctx context.Context, t task) (*process, error) {
	child, err := program.Again(ctx, role)
	if err != nil {
		return nil, err
	}
	p := &process{Child: child, answers: json.NewDecoder(child.Out), orders: json.NewEncoder(child.In)}
	var at place
	if err := errors.Join(p.orders.Encode(t), p.answers.Decode(&at)); err != nil {
		return nil, errors.Join(fmt.Errorf("a process did not start: %w", err), p.stop())
	}
	p.address = at.Address
	return p, nil
}

func (p *process) read() (r reading, err error) {
	if err := p.orders.Encode("read"); err != nil {
		return r, err
	}
	return r, p.answers.Decode(&r)
}

// stop ends the process in order.
func (p *process) stop() error { return errors.Join(p.In.Close(), p.Wait()) }

// crew are the processes of a fleet: the store is the first to start, and the last to end.
type crew struct {
	all       []*process
	transport *http.Transport // to the store
}

// outside makes a fleet of processes of their own.
func outside(ctx context.Context, s settings) (*fleet, error) {
	c := &crew{transport: &http.Transport{}}
	f, err := c.assemble(ctx, s)
	if err != nil {
		return nil, errors.Join(err, c.stop(ctx))
	}
	return f, nil
}

func (c *crew) assemble(ctx context.Context, s settings) (*fleet, error) {
	store, err := c.start(ctx, task{Store: true, Settings: s})
	if err != nil {
		return nil, err
	}
	endpoint := "http://" + store.address
	db := remote(endpoint, c.transport)
	keys, err := credentials.NewKeySet(nil, time.Now())
	if err != nil {
		return nil, err
	}
	targets, err := prepare(ctx, db, keys, s)
	if err != nil {
		return nil, err
	}
	if _, err := store.read(); err != nil { // from now on it has latency
		return nil, err
	}
	for i := range s.Processes {
		if _, err := c.start(ctx, task{Settings: s, Endpoint: endpoint, Keys: keys.Document().Reveal(), Sweeps: i == 0}); err != nil {
			return nil, err
		}
	}
	return &fleet{
		targets: targets, read: c.read, stop: c.stop,
		dial: func(process int) client { return &connection{address: c.all[1+process%s.Processes].address} },
		size: func(ctx context.Context) (size, error) { return sizeOf(ctx, db) },
	}, nil
}

func (c *crew) start(ctx context.Context, t task) (*process, error) {
	p, err := start(ctx, t)
	if err == nil {
		c.all = append(c.all, p)
	}
	return p, err
}

// read is what the store used, and the keepers together.
func (c *crew) read() (store, keepers reading, err error) {
	if store, err = c.all[0].read(); err != nil {
		return store, keepers, err
	}
	for _, k := range c.all[1:] {
		r, err := k.read()
		if err != nil {
			return store, keepers, err
		}
		keepers.CPU += r.CPU
	}
	return store, keepers, nil
}

func (c *crew) stop(context.Context) error {
	var errs []error
	for _, p := range slices.Backward(c.all) {
		errs = append(errs, p.stop())
	}
	c.transport.CloseIdleConnections()
	return errors.Join(errs...)
}
