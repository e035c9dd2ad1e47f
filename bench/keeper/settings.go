// Package keeper loads a keeper through its REST API, by a schedule: a request is due
// whether or not those before it were answered, and how long it took counts from when it
// was due. Its benchmarks are loads by name, and one by flags:
//
//	go test -run '^$' -bench Keeper/selection ./keeper      # selection, submission, mixed, source
//	go test -run '^$' -bench Keeper/linger ./keeper         # in virtual time: linger, shards, month
//	go test -run '^$' -bench Keeper/flags ./keeper -processes 4 -select 10000 -submit 5000
//	go test -run '^$' -bench Keeper/flags ./keeper -virtual -processes 8 -submit 4000 -busy 4ms -shards 16
//
// The store, ddbmem, is a process, and so is each keeper; they talk HTTP on loopback, and
// this one is the clients. In virtual time all is this process: requests take what the
// store's latency and the waiting for others take, and the machine does not matter.
package keeper

import (
	"time"

	"github.com/dynalimit/dynalimit/keeper/budget"
)

// settings are a load, and the keeper that has it.
type settings struct {
	Processes  int             `json:"processes"`
	Clients    int             `json:"clients"` // each with a connection to one process
	Apps       int             `json:"apps"`    // that they ask for in turn
	Select     float64         `json:"select"`  // model selections a second of all clients together
	Submit     float64         `json:"submit"`  // submissions
	For        time.Duration   `json:"for"`
	WarmUp     time.Duration   `json:"warm_up"` // the same load before
	Latency    time.Duration   `json:"latency"` // what the store takes for a request
	Linger     time.Duration   `json:"linger"`  // budget.Options.Linger; 0: its own default
	Metering   budget.Metering `json:"metering"`
	Shards     int             `json:"shards"`     // counters that an app's day is spread over
	Busy       time.Duration   `json:"busy"`       // how long a transaction is on its counters, where others meet it and are refused
	Partitions bool            `json:"partitions"` // of 1,000 write and 3,000 read units a second
	Sweep      time.Duration   `json:"sweep"`      // time between two sweeps of one of the processes; 0: none
	Seed       uint64          `json:"seed"`       // of the instants at which requests are due
	Virtual    bool            `json:"virtual"`
}
