// Command chart draws what named fleets came to before writes were paced and come to
// now, from the reports of scale on its input:
//
//	for s in A A-1s A-250ms A2 B C D; do go run ./scale -json -scenario $s; done | go run ./chart > ../docs/fleets.svg
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dynalimit/dynalimit/bench/internal/program"
)

func main() {
	program.Main("chart", func(_ context.Context, args []string, stdout, stderr io.Writer) error {
		if err := program.Parse("chart", args, stderr, func(*flag.FlagSet) {}); err != nil {
			return err
		}
		fleets, err := read(os.Stdin)
		if err != nil {
			return err
		}
		_, err = io.WriteString(stdout, draw(fleets))
		return err
	})
}

// result is what a fleet came to.
type result struct {
	failed float64 // share of the calls
	writes float64 // sent a second
	p99    time.Duration
}

// fleet is a fleet now, and before if it was measured then.
type fleet struct {
	name   string
	now    result
	before *result
}

// before is what fleets came to without pacing, measured with scale; the code is gone.
var before = map[string]result{
	"A: 50 × 100/s below the limit":             {0.019, 3010, 659 * time.Millisecond},
	"A2: 200 × 25/s below the limit":            {0.14, 6024, 905 * time.Millisecond},
	"A2: 1,000 × 5/s below the limit":           {0.58, 19894, 1030 * time.Millisecond},
	"B: 50 × 100/s, 2.5 times the limit":        {0.015, 3035, 823 * time.Millisecond},
	"C: 1,000 × 0.3/s wait up to 1 s for 200/s": {0.24, 4432, 950 * time.Millisecond},
	"D: 10,000 × 0.3/s, 15 times the limit":     {0.70, 26929, 582 * time.Millisecond},
}

// read reads the reports of scale.
func read(in io.Reader) ([]fleet, error) {
	var fleets []fleet
	for reports := json.NewDecoder(in); ; {
		var r struct {
			Fleet   string  `json:"fleet"`
			Failed  float64 `json:"failed_share"`
			Writes  float64 `json:"attempted_writes_per_second"`
			Granted struct {
				P99 time.Duration `json:"p99_ns"`
			} `json:"granted_after"`
		}
		err := reports.Decode(&r)
		switch {
		case errors.Is(err, io.EOF) && len(fleets) > 0:
			return fleets, nil
		case errors.Is(err, io.EOF):
			return nil, errors.New("nothing on the input: give it what scale -json -scenario prints")
		case err != nil:
			return nil, err
		case r.Fleet == "":
			return nil, fmt.Errorf("report %d names no fleet: run scale with -scenario", len(fleets)+1)
		}
		f := fleet{name: r.Fleet, now: result{r.Failed, r.Writes, r.Granted.P99}}
		if was, ok := before[r.Fleet]; ok {
			f.before = &was
		}
		fleets = append(fleets, f)
	}
}
