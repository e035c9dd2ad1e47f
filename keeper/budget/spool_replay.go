package budget

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/guard"
)

// unknownAfter is the age at which a record in the spool may have been counted and
// forgotten. Before that, its dedup item shows whether it was counted. The hour allows
// for clocks that differ.
const unknownAfter = dedupFor - time.Hour

func (c *charges) spooled() (lines int, size int64) {
	if c.spool == nil {
		return 0, 0
	}
	c.spool.mu.Lock()
	defer c.spool.mu.Unlock()
	return c.spool.total()
}

// isRecordFault reports whether an error is about the record itself, so that sending it
// again is in vain. Every other error is about the store, its credentials, its
// permissions or its tables, which recover.
func isRecordFault(err error) bool {
	var bad *fault.ValidationError
	return errors.As(err, &bad) || errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound)
}

// keepsInSpool reports whether the policy keeps a record that failed with this error.
func (c *charges) keepsInSpool(err error) bool {
	return err != nil && !isRecordFault(err) && !errors.Is(err, ErrClosed) && c.spool != nil && c.opts.OnUnavailable.Submit == Allow
}

// spoolIfUnavailable keeps a record that the store did not take, if the policy says so.
func (c *charges) spoolIfUnavailable(r Receipt, err error, entry SpooledUsage) (Receipt, error) {
	if !c.keepsInSpool(err) {
		return r, err
	}
	if spoolErr := c.spool.append(entry); spoolErr != nil {
		return r, errors.Join(err, spoolErr)
	}
	return Receipt{Spooled: true}, nil
}

// spoolAllIfUnavailable does so for a batch, with one write: all are kept or none.
func (c *charges) spoolAllIfUnavailable(results []BatchResult, all []SpooledUsage) {
	var entries []SpooledUsage
	var places []int
	for i, r := range results {
		if c.keepsInSpool(r.Err) {
			entries, places = append(entries, all[i]), append(places, i)
		}
	}
	if len(entries) == 0 {
		return
	}
	spoolErr := c.spool.append(entries...)
	for _, i := range places {
		if spoolErr != nil {
			results[i].Err = errors.Join(results[i].Err, spoolErr)
		} else {
			results[i] = BatchResult{Receipt: Receipt{Spooled: true}}
		}
	}
}

func (c *charges) replayLoop() {
	defer c.life.Done()
	ticker := time.NewTicker(c.opts.SpoolInterval)
	defer ticker.Stop()
	for {
		if lines, _ := c.spooled(); lines > 0 {
			if err := c.replay(c.life.Context()); err != nil {
				left, _ := c.spooled()
				c.opts.Logger.Warn("budget: replaying the spool", "error", err, "left", left)
			}
		}
		select {
		case <-ticker.C:
		case <-c.life.Closing():
			return
		}
	}
}

func (c *charges) replay(ctx context.Context) error {
	if c.spool == nil {
		return nil
	}
	return c.spool.replay(func(batch []spoolLine) ([]bool, error) { return c.replayLines(ctx, batch) })
}

// replayLines sends a batch of records at once, so that they share transactions. Records
// of one request id are sent one after the other.
func (c *charges) replayLines(ctx context.Context, batch []spoolLine) (done []bool, err error) {
	outcomes := make([]error, len(batch))
	byID := map[string][]int{}
	for i, line := range batch {
		if outcomes[i] = line.bad; line.bad == nil {
			id := line.entry.Org + "/" + line.entry.App + "/" + line.entry.Usage.RequestID
			byID[id] = append(byID[id], i)
		}
	}
	var group sync.WaitGroup
	for _, places := range byID {
		group.Go(func() {
			for _, i := range places {
				outcomes[i] = guard.Apart(func() error { return c.replayEntry(ctx, batch[i].entry) })
			}
		})
	}
	group.Wait()
	done = make([]bool, len(batch))
	for i, outcome := range outcomes {
		if neverAccepted(outcome) {
			outcome = c.refused(batch[i], outcome)
		}
		done[i] = outcome == nil
		if err == nil || misconfigured(err) && !done[i] {
			err = outcome
		}
	}
	return done, err
}

// neverAccepted reports whether a spooled record or a damaged line will never be accepted.
func neverAccepted(err error) bool {
	return isRecordFault(err) && !misconfigured(err) || errors.Is(err, errDamaged)
}

// refused keeps a line that will never be accepted and calls Options.OnRefused.
func (c *charges) refused(line spoolLine, reason error) error {
	entry, text := line.entry, line.text
	entry.Refusal = reason.Error()
	if line.bad == nil {
		var err error
		if text, err = json.Marshal(entry); err != nil {
			return err
		}
	}
	if err := c.spool.refuse(text); err != nil {
		return fmt.Errorf("budget: spool: %w", err)
	}
	if c.opts.OnRefused == nil {
		return nil
	}
	err := guard.Apart(func() error { c.opts.OnRefused(entry, reason); return nil })
	if err != nil { // the line is in the refused file all the same
		c.opts.Logger.Error("budget: OnRefused did not return", "error", err)
	}
	return nil
}

func (c *charges) replayEntry(ctx context.Context, entry SpooledUsage) error {
	if age := c.now().Sub(entry.Received); age > unknownAfter {
		return invalid("received", "%v ago is more than %v: whether it was counted is no longer known", age.Round(time.Second), unknownAfter)
	}
	_, err := c.submitEntry(ctx, &entry)
	return err
}
