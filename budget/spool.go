package budget

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// SpooledUsage is a record that the store has not accepted yet.
type SpooledUsage struct {
	Org      string       `json:"org_id"`
	App      string       `json:"app_id"`
	Usage    Usage        `json:"usage"`
	Received time.Time    `json:"received"` // the time of a record that has none
	Hold     *SpooledHold `json:"hold,omitempty"`
	Refusal  string       `json:"refusal,omitempty"` // why it was refused for good
}

// SpooledHold is the hold a spooled record settles.
type SpooledHold struct {
	ID         string           `json:"id,omitempty"`
	Keys       [][2]string      `json:"keys,omitempty"`
	Scope      string           `json:"scope,omitempty"`
	Label      string           `json:"label,omitempty"`
	Day        string           `json:"day"`
	Estimate   string           `json:"estimate_picos,omitempty"`
	Counters   []spooledCounter `json:"counters,omitempty"`
	ExpireMs   int64            `json:"expires_at_ms,omitempty"`
	TTL        int64            `json:"ttl_epoch,omitempty"`
	Lane       string           `json:"lane,omitempty"`
	HoldsMoney bool             `json:"holds_money"`
	Reserved   time.Time        `json:"reserved_at"`
}

type spooledCounter struct {
	PK     string `json:"pk"`
	Prefix string `json:"prefix"`
	Bare   bool   `json:"bare,omitempty"`
}

// spooled is the hold as the spool keeps it; nil holds nothing but the day.
func (h *holdRef) spooled(day string) *SpooledHold {
	s := &SpooledHold{Day: day}
	if h == nil {
		return s
	}
	*s = SpooledHold{
		ID: h.id, Scope: h.scope, Label: h.label, Day: h.day, Estimate: h.estimate.String(),
		ExpireMs: h.expireMs, TTL: h.ttl, Lane: h.lane, HoldsMoney: true,
	}
	for _, key := range h.keys {
		s.Keys = append(s.Keys, [2]string{key.pk, key.sk})
	}
	for _, d := range h.debits {
		s.Counters = append(s.Counters, spooledCounter{d.pk, d.prefix, d.bare})
	}
	return s
}

func (s *SpooledHold) ref() (*holdRef, error) {
	if !s.HoldsMoney {
		return nil, nil
	}
	estimate, err := parsePicos(s.Estimate)
	if err != nil {
		return nil, err
	}
	h := &holdRef{
		id: s.ID, scope: s.Scope, label: s.Label, day: s.Day, estimate: estimate,
		expireMs: s.ExpireMs, ttl: s.TTL, lane: s.Lane,
	}
	for _, key := range s.Keys {
		h.keys = append(h.keys, itemKey{key[0], key[1]})
	}
	for _, c := range s.Counters {
		h.debits = append(h.debits, debit{counterRef: counterRef{c.PK, c.Prefix, 1}, hard: true, bare: c.Bare})
	}
	return h, nil
}

// spool is the local file of records, one JSON document per line. A line is
// synced before its caller is answered; the file is emptied once every line in
// it is accepted or refused for good. Replaying a line twice counts it once.
type spool struct {
	path string

	mu      sync.Mutex
	file    *os.File
	pending int // lines in the file

	replaying sync.Mutex
}

func openSpool(path string) (*spool, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("budget: spool: %w", err)
	}
	s := &spool{path: path, file: file}
	lines, err := s.read()
	if err == nil {
		err = s.endLine()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("budget: spool: %w", err), file.Close())
	}
	s.pending = len(lines)
	return s, nil
}

// endLine separates a line that a crash cut off from those to come.
func (s *spool) endLine() error {
	info, err := s.file.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	var last [1]byte
	if _, err := s.file.ReadAt(last[:], info.Size()-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = s.file.Write([]byte{'\n'})
	return err
}

func (s *spool) append(entry SpooledUsage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := appendLine(s.file, entry); err != nil {
		return fmt.Errorf("budget: spool: %w", err)
	}
	s.pending++
	return nil
}

func appendLine(file *os.File, entry SpooledUsage) error {
	line, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	if _, err := file.Write(append(line, '\n')); err != nil {
		return err
	}
	return file.Sync()
}

// read gives the file's lines, those cut off by a crash included.
func (s *spool) read() ([][]byte, error) {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	var lines [][]byte
	r := bufio.NewReader(s.file)
	for {
		line, err := r.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (s *spool) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.file.Close()
}

// refuse keeps an entry that will never be accepted.
func (s *spool) refuse(line []byte) error {
	file, err := os.OpenFile(s.path+".refused", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Sync(), file.Close())
}

// replay hands the lines to accept until one fails for want of the store, and
// keeps that one and the rest.
func (s *spool) replay(accept func(line []byte) (done bool, err error)) error {
	s.replaying.Lock()
	defer s.replaying.Unlock()
	s.mu.Lock()
	lines, err := s.read()
	s.mu.Unlock()
	if err != nil || len(lines) == 0 {
		return err
	}
	accepted := 0
	for _, line := range lines {
		done, acceptErr := accept(line)
		if !done {
			err = acceptErr
			break
		}
		accepted++
	}
	return errors.Join(err, s.drop(accepted))
}

// drop rewrites the file without its first n lines; lines appended meanwhile
// stay.
func (s *spool) drop(n int) error {
	if n == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lines, err := s.read()
	if err != nil {
		return err
	}
	temporary := s.path + ".new"
	file, err := os.OpenFile(temporary, os.O_CREATE|os.O_RDWR|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	for _, line := range lines[n:] {
		if _, err = file.Write(append(line, '\n')); err != nil {
			break
		}
	}
	if err = errors.Join(err, file.Sync()); err == nil {
		err = os.Rename(temporary, s.path)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	old := s.file
	s.file, s.pending = file, len(lines)-n
	return old.Close()
}

// Spooled is how many records wait in the spool.
func (k *Keeper) Spooled() int {
	if k.spool == nil {
		return 0
	}
	k.spool.mu.Lock()
	defer k.spool.mu.Unlock()
	return k.spool.pending
}

// orSpool keeps a record that the store did not take, if the policy says so.
func (k *Keeper) orSpool(r Receipt, err error, entry SpooledUsage) (Receipt, error) {
	if err == nil || !unavailable(err) || k.spool == nil || k.opts.OnUnavailable.Submit != Allow {
		return r, err
	}
	if spoolErr := k.spool.append(entry); spoolErr != nil {
		return r, errors.Join(err, spoolErr)
	}
	return Receipt{Spooled: true}, nil
}

func (k *Keeper) replayLoop() {
	defer k.tasks.Done()
	ticker := time.NewTicker(k.opts.SpoolInterval)
	defer ticker.Stop()
	for {
		if k.Spooled() > 0 {
			if err := k.Replay(k.base); err != nil {
				k.opts.Logger.Warn("budget: replaying the spool", "error", err)
			}
		}
		select {
		case <-ticker.C:
		case <-k.closing:
			return
		}
	}
}

// Replay submits what waits in the spool now, instead of at the next interval.
// Records refused for good go to Options.OnRefused and the refused file. It
// stops at the first the store does not take.
func (k *Keeper) Replay(ctx context.Context) error {
	if k.spool == nil {
		return nil
	}
	return k.spool.replay(func(line []byte) (bool, error) { return k.replayLine(ctx, line) })
}

func (k *Keeper) replayLine(ctx context.Context, line []byte) (done bool, err error) {
	var entry SpooledUsage
	err = json.Unmarshal(line, &entry)
	if err == nil {
		err = k.replayEntry(ctx, entry)
	}
	if err == nil {
		return true, nil
	}
	if unavailable(err) || errors.Is(err, ErrClosed) {
		return false, err
	}
	entry.Refusal = err.Error()
	if marked, markErr := json.Marshal(entry); markErr == nil && entry.Org != "" {
		line = marked
	}
	if keepErr := k.spool.refuse(line); keepErr != nil {
		return false, keepErr
	}
	if k.opts.OnRefused != nil {
		k.opts.OnRefused(entry, err)
	}
	return true, nil
}

func (k *Keeper) replayEntry(ctx context.Context, entry SpooledUsage) error {
	if entry.Hold == nil {
		_, err := k.submitAt(ctx, entry.Org, entry.App, entry.Usage, entry.Received)
		return err
	}
	ref, err := entry.Hold.ref()
	if err != nil {
		return err
	}
	_, err = k.settleHold(ctx, entry.Org, entry.App, ref, entry.Hold.Day, entry.Hold.Reserved, entry.Usage, entry.Received)
	return err
}
