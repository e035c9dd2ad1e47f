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

// unknownAfter is the age at which a spooled record's dedup item may have expired. Before that
// age the item shows whether the record was counted. The hour allows for clock differences.
const unknownAfter = dedupFor - time.Hour

// countSpooled returns the number of spooled records and their size in bytes. Both are 0 without
// a spool.
func (c *charges) countSpooled() (lines int, size int64) {
	if c.spool == nil {
		return 0, 0
	}
	c.spool.mu.Lock()
	defer c.spool.mu.Unlock()
	return c.spool.countPending()
}

// isRecordFault reports whether an error concerns the record itself, so that sending it again
// is useless. Every other error concerns the store, its credentials, its permissions or its
// tables, which can recover.
func isRecordFault(err error) bool {
	var bad *fault.ValidationError
	return errors.As(err, &bad) || errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound)
}

// keepsInSpool reports whether the policy spools a record after this error. It is false for nil, for a fault of
// the record itself, after Close, and without a spool.
func (c *charges) keepsInSpool(err error) bool {
	return err != nil && !isRecordFault(err) && !errors.Is(err, ErrClosed) && c.spool != nil && c.opts.OnUnavailable.Submit == Allow
}

// spoolIfUnavailable spools a record that the store did not accept, if the policy says so, and returns a
// receipt marked Spooled in place of err. It returns any other result unchanged, and joins an error of the
// spool to err.
func (c *charges) spoolIfUnavailable(r Receipt, err error, entry SpooledUsage) (Receipt, error) {
	if !c.keepsInSpool(err) {
		return r, err
	}
	if spoolErr := c.spool.appendRecords(entry); spoolErr != nil {
		return r, errors.Join(err, spoolErr)
	}
	return Receipt{Spooled: true}, nil
}

// spoolAllIfUnavailable spools the records of failed results that the policy keeps, all or none
// in one write. It sets their results to Spooled, or adds the spool's error.
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
	spoolErr := c.spool.appendRecords(entries...)
	for _, i := range places {
		if spoolErr != nil {
			results[i].Err = errors.Join(results[i].Err, spoolErr)
		} else {
			results[i] = BatchResult{Receipt: Receipt{Spooled: true}}
		}
	}
}

// replayLoop submits the records of the spool at once and then every SpoolInterval, until the keeper closes.
// It logs errors.
func (c *charges) replayLoop() {
	defer c.life.Done()
	ticker := time.NewTicker(c.opts.SpoolInterval)
	defer ticker.Stop()
	for {
		if lines, _ := c.countSpooled(); lines > 0 {
			if err := c.replaySpool(c.life.Context()); err != nil {
				left, _ := c.countSpooled()
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

// replaySpool submits all spooled records. It returns nil without a spool. After an error the
// unfinished records stay in the spool.
func (c *charges) replaySpool(ctx context.Context) error {
	if c.spool == nil {
		return nil
	}
	return c.spool.replayAll(func(batch []spoolLine) ([]bool, error) { return c.replayLines(ctx, batch) })
}

// replayLines submits a batch of spooled records concurrently, so that they share transactions; equal request
// ids go one after the other. It writes records that can never be counted to the refused file. done marks
// finished lines, and err is the first error of the others, preferably one of the store.
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
			outcome = c.refuseLine(batch[i], outcome)
		}
		done[i] = outcome == nil
		if err == nil || isMisconfigured(err) && !done[i] {
			err = outcome
		}
	}
	return done, err
}

// neverAccepted reports whether a spooled record or a damaged line will never be accepted, by the error of its
// replay. It is false for a missing model or price, because that can still be configured.
func neverAccepted(err error) bool {
	return isRecordFault(err) && !isMisconfigured(err) || errors.Is(err, errDamaged)
}

// refuseLine appends a line with its reason to the refused file and then calls Options.OnRefused.
// An error means that the file has no such line.
func (c *charges) refuseLine(line spoolLine, reason error) error {
	entry, text := line.entry, line.text
	entry.Refusal = reason.Error()
	if line.bad == nil {
		var err error
		if text, err = json.Marshal(entry); err != nil {
			return err
		}
	}
	if err := c.spool.writeRefused(text); err != nil {
		return fmt.Errorf("budget: spool: %w", err)
	}
	if c.opts.OnRefused == nil {
		return nil
	}
	err := guard.Apart(func() error { c.opts.OnRefused(entry, reason); return nil })
	if err != nil { // the refused file contains the line anyway
		c.opts.Logger.Error("budget: OnRefused did not return", "error", err)
	}
	return nil
}

// replayEntry submits a spooled record. It returns a *fault.ValidationError, without sending it, for a record
// older than unknownAfter, because it can no longer be known whether it was counted.
func (c *charges) replayEntry(ctx context.Context, entry SpooledUsage) error {
	if age := c.now().Sub(entry.Received); age > unknownAfter {
		return invalid("received", "%v ago is more than %v: whether it was counted is no longer known", age.Round(time.Second), unknownAfter)
	}
	_, err := c.submitEntry(ctx, &entry)
	return err
}
