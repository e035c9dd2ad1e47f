// Package keeper loads a keeper through its REST API, by a schedule. A request is due even if earlier ones
// are unanswered, and its time counts from its due instant. Its benchmarks are named loads, and one by flags:
//
//	go test -run '^$' -bench Keeper/selection ./keeper      # selection, submission, mixed, source
//	go test -run '^$' -bench Keeper/linger ./keeper         # in virtual time: linger, shards, month
//	go test -run '^$' -bench Keeper/flags ./keeper -processes 4 -select 10000 -submit 5000
//	go test -run '^$' -bench Keeper/flags ./keeper -virtual -processes 8 -submit 4000 -busy 4ms -shards 16
//
// The store, ddbmem, is a process, and so is each keeper. They talk HTTP on loopback, and this process is the
// clients. In virtual time all are in this process. The time of a request is then the store's latency and its
// wait for others, on any machine.
package keeper

import (
	"time"

	"github.com/dynalimit/dynalimit/keeper/budget"
)

// settings describe a load and its keeper.
type settings struct {
	Processes  int             `json:"processes"`
	Clients    int             `json:"clients"` // each with a connection to one process
	Apps       int             `json:"apps"`    // requested in turn
	Select     float64         `json:"select"`  // model selections a second of all clients
	Submit     float64         `json:"submit"`  // submissions
	For        time.Duration   `json:"for"`
	WarmUp     time.Duration   `json:"warm_up"` // the same load before the measurement
	Latency    time.Duration   `json:"latency"` // time of the store for a request
	Linger     time.Duration   `json:"linger"`  // budget.Options.Linger; 0: its own default
	Metering   budget.Metering `json:"metering"`
	Shards     int             `json:"shards"`     // counters for an app's day
	Busy       time.Duration   `json:"busy"`       // time that a transaction occupies its counters; others that meet it there are refused
	Partitions bool            `json:"partitions"` // of 1,000 write and 3,000 read units a second
	Sweep      time.Duration   `json:"sweep"`      // time between two sweeps of one process; 0: never
	Seed       uint64          `json:"seed"`       // for the instants of due requests
	Virtual    bool            `json:"virtual"`
}
