package archive

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/fault"
	"github.com/dynalimit/dynalimit/internal/guard"
	"github.com/dynalimit/dynalimit/internal/problem"
)

const (
	defaultWriters  = 4
	defaultMaxLines = 10_000
)

// Writer keeps files.
type Writer interface {
	// Put stores a file whole, or fails: then no part of it is seen under its name. A file
	// that has the name already is replaced; it had the same content. A name is a relative
	// path of parts with slashes between them, of letters, digits and . _ = - alone. The
	// data is not changed by either side afterwards. Put may be called by several
	// goroutines at once. Its ctx ends after 5 s, and 5 s more for each MiB of data. An Archive
	// waits 1 s more for Put to return, and gives the file again then.
	Put(ctx context.Context, name string, data []byte) error
}

// Options configures an Archive. The zero value gives the defaults that the fields name.
type Options struct {
	// Writers bounds the parallel writes of files, and the overdue calls of the Writer. If that
	// many calls are overdue, no file is written until one returns.
	// Defaults to 4.
	Writers int
	// MaxLines bounds the lines of a file. In memory are the records that Process is given,
	// their lines, and as many files as are written at once. Defaults to 10,000.
	MaxLines int
}

// Archive writes expired items into files. Make one with New. It is safe for concurrent use.
type Archive struct {
	writer  Writer
	options Options
	// overdue counts the calls of Put that have not returned in time.
	overdue atomic.Int64
}

// New returns an Archive that writes files with a Writer: Folder, that of package s3archive,
// or your own. It fails with a *ValidationError for bad input.
func New(w Writer, opts *Options) (*Archive, error) {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	switch {
	case problem.IsNil(w):
		return nil, invalid("writer", "is nil; give archive.Folder(path), or a writer for S3")
	case w == folder(""):
		return nil, invalid("writer", "is a Folder without a name; give its path, or \".\" for the working directory")
	case o.Writers < 0:
		return nil, invalid("options.Writers", "is %d; give at least 1, or 0 for the default", o.Writers)
	case o.MaxLines < 0:
		return nil, invalid("options.MaxLines", "is %d; give at least 1, or 0 for the default", o.MaxLines)
	}
	if o.Writers == 0 {
		o.Writers = defaultWriters
	}
	if o.MaxLines == 0 {
		o.MaxLines = defaultMaxLines
	}
	return &Archive{writer: w, options: o}, nil
}

// invalid returns the *fault.ValidationError of an argument or option.
func invalid(field, format string, args ...any) error {
	return &fault.ValidationError{Package: "archive", Field: field, Reason: fmt.Sprintf(format, args...)}
}

// Process writes the records of expired audit events, usage and denials
// into files, and ignores the others, also deletions by users. Result.Counted is the number of
// written records, Result.Repeated the number of duplicates in the call. Records of a file that
// cannot be written are readable failures: give them again. Process is an
// aggregator.ProcessFunc.
//
// The error is that of ctx, or a *ValidationError without one; other errors are in the
// Result, which is valid in any case.
func (a *Archive) Process(ctx context.Context, records []aggregator.Record) (aggregator.Result, error) {
	var result aggregator.Result
	if a == nil || a.writer == nil {
		return result, invalid("archive", "is nil or was not made; make one with New")
	}
	if err := problem.CheckContext(ctx, "archive"); err != nil {
		return result, err
	}
	var mu sync.Mutex
	var group guard.Group
	group.SetLimit(a.options.Writers)
	for _, f := range sortIntoFiles(records, a.options.MaxLines, &result) {
		group.Go(func() error {
			err := a.putFile(ctx, f)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				result.Counted += len(f.records)
				return nil
			}
			for _, r := range f.records {
				result.Failures = append(result.Failures, aggregator.Failure{Record: r, Err: err})
			}
			return nil
		})
	}
	_ = group.Wait()
	result.Ignored = len(records) - result.Counted - result.Repeated - len(result.Failures)
	return result, ctx.Err()
}

// putFile compresses a file and stores it with the Writer. Its error names the file, unless ctx ended before
// the call.
func (a *Archive) putFile(ctx context.Context, f *file) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	name := f.name()
	data, err := f.compressed()
	if err == nil {
		err = a.putInTime(ctx, name, data)
	}
	if err != nil {
		return fmt.Errorf("archive: write %s: %w", name, err)
	}
	return nil
}

// sortIntoFiles returns files with the lines of the records, by folder and date, each of at most `most` lines.
// It adds unreadable records to result.Failures, counts repetitions in result.Repeated, and leaves out ignored
// records.
func sortIntoFiles(records []aggregator.Record, most int, result *aggregator.Result) []*file {
	var all []*file
	open := map[string]*file{}
	seen := make(map[string]bool, len(records))
	for _, r := range records {
		line, ok, err := lineOf(r)
		switch {
		case err != nil:
			result.Failures = append(result.Failures, aggregator.Failure{Record: r, Err: fmt.Errorf("archive: %w", err), Unreadable: true})
			continue
		case !ok:
			continue
		case seen[r.EventID] && r.EventID != "":
			result.Repeated++
			continue
		}
		seen[r.EventID] = true
		folder := line.folder() + "/date=" + line.Time.UTC().Format("2006-01-02")
		f := open[folder]
		if f == nil || len(f.lines) == most {
			f = &file{folder: folder}
			open[folder], all = f, append(all, f)
		}
		f.lines, f.records = append(f.lines, line), append(f.records, r)
	}
	return slices.Clip(all)
}
