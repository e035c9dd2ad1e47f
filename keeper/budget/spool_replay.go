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

// countSpooled returns the number of records that wait in the spool and the size of its files in bytes. Both
// are 0 without a spool.
func (c *charges) countSpooled() (lines int, size int64) {
	if c.spool == nil {
		return 0, 0
	}
	c.spool.mu.Lock()
	defer c.spool.mu.Unlock()
	return c.spool.countPending()
}

// isRecordFault reports whether err is a fault of the record: a *fault.ValidationError, ErrConflict or
// ErrNotFound. Every other error is of the store, its credentials, permissions or tables, and may pass. It is
// false for nil.
func isRecordFault(err error) bool {
	var bad *fault.ValidationError
	return errors.As(err, &bad) || errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound)
}

// keepsInSpool reports whether a record belongs into the spool after err: the store failed, a spool exists, and
// the policy allows it. It is false for nil, for a fault of the record itself, and after Close. It writes
// nothing.
func (c *charges) keepsInSpool(err error) bool {
	return err != nil && !isRecordFault(err) && !errors.Is(err, ErrClosed) && c.spool != nil && c.opts.OnUnavailable.Submit == Allow
}

// spoolIfUnavailable spools entry if err says that the store did not accept it and the policy allows that. It
// then returns a receipt marked Spooled without an error. Otherwise it returns r and err, with an error of the
// spool added.
func (c *charges) spoolIfUnavailable(r Receipt, err error, entry SpooledUsage) (Receipt, error) {
	if !c.keepsInSpool(err) {
		return r, err
	}
	if spoolErr := c.spool.appendRecords(entry); spoolErr != nil {
		return r, errors.Join(err, spoolErr)
	}
	return Receipt{Spooled: true}, nil
}

// spoolAllIfUnavailable writes the records whose results failed for the store to the spool, all or none, if the
// policy allows that. It sets their results to Spooled, or adds the spool's error to each. all has the record
// of each result.
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

// replayLoop submits the spooled records at once and then every SpoolInterval, as long as some wait, until the
// keeper closes. It logs errors, and ends the keeper's background task.
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

// replaySpool submits all spooled records, drops counted and refused ones, and keeps the others in the spool.
// It returns the first error, preferably one of the store, and nil without a spool.
func (c *charges) replaySpool(ctx context.Context) error {
	if c.spool == nil {
		return nil
	}
	return c.spool.replayAll(func(batch []spoolLine) ([]bool, error) { return c.replayLines(ctx, batch) })
}

// replayLines submits a batch of spooled records concurrently; equal request ids go in order. Records that can
// never count go to the refused file. done is true for counted and refused lines; err is the first error of the
// others, preferably one of the store.
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

// refuseLine appends a line with its reason to the refused file, and then calls Options.OnRefused; its panic is
// logged. It returns an error only if the file does not have the line, which must then stay in the spool.
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

// replayEntry submits a spooled record and waits for the result. A record received longer than unknownAfter ago
// it does not send: the result is a *fault.ValidationError, because it may have been counted already.
func (c *charges) replayEntry(ctx context.Context, entry SpooledUsage) error {
	if age := c.now().Sub(entry.Received); age > unknownAfter {
		return invalid("received", "%v ago is more than %v: whether it was counted is no longer known", age.Round(time.Second), unknownAfter)
	}
	_, err := c.submitEntry(ctx, &entry)
	return err
}
