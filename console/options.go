package console

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/prices"
)

// ErrLogin is the error of Options.Authorize for a visitor without a login. The answer is 401.
var ErrLogin = errors.New("dynalimit: console: log in first")

// Access identifies a visitor and bounds his view. It is a plain value.
type Access struct {
	// Principal names the visitor. Visitors share the read units by it.
	Principal string
	// Under restricts the visitor to an entity and its descendants: he sees their pages and CSV, and nothing of
	// other entities. Of the levels above he sees a word ("a level above is spent"). Defaults to all
	// entities: refuse visitors without an entity in Authorize.
	Under string
	// Change permits changes: blocks, raises, grants and refills of entities, with Under of those below it alone.
	// It needs a Principal, which the audit trail records. Defaults to false: the console then has no forms.
	Change bool
	// Session identifies the visitor's login. The form of a change that another session confirms is shown again
	// instead. Defaults to none: forms are then bound to Principal and Under alone.
	Session string
}

// Finding is one result of Options.Doctor.
type Finding struct {
	// Status is "ok", "hint", "warning" or "wrong".
	Status string
	// Check names the examined part.
	Check string
	// Found is the result. Fix is a command that corrects a fault; empty without a fault.
	Found, Fix string
}

// Options configures a console. Authorize is required.
type Options struct {
	// Authorize identifies the visitor of each request, static files and polls included. ErrLogin answers 401,
	// any other error 403 without its text.
	Authorize func(*http.Request) (Access, error)
	// Prefix is the path below which the console is mounted, such as "/limits/": it begins and ends with a slash.
	// The handler works with and without http.StripPrefix. Defaults to "/".
	Prefix string
	// Hosts are the host names in the address bar of visitors, without ports. Requests with another Host are
	// refused, so that no foreign page reaches the console by a name of its own. A proxy in front keeps the Host.
	// Defaults to localhost, 127.0.0.1 and ::1.
	Hosts []string
	// Resource is the resource or group of the limits in lists. Defaults to the group with the most models, and
	// without groups to the first resource.
	Resource string
	// Location is the time zone of the shown times. Days of charts are those of the usage reader. Defaults to UTC.
	Location *time.Location
	// Theme is the look. Defaults to that of dynalimit.
	Theme Theme
	// Prices are shown beside the models. Give those of the guard (llm.Cost). Defaults to none.
	Prices prices.List
	// Where describes the table for people, such as "us-east-1". Defaults to none.
	Where string
	// ReadUnits bounds the read units that the console uses in a minute. Above it visitors get the last values
	// and wait; one principal gets at most a quarter if others ask, or asked the minute before. Defaults to 600.
	ReadUnits float64
	// Doctor examines the table when a visitor asks for it, one at a time. Defaults to nil: the
	// console then lacks that page.
	Doctor func(context.Context) ([]Finding, error)
	// Key signs the forms of changes, 32 bytes or more. Give all replicas the same: without it, each process draws its
	// own, and a form that another process confirms is shown again instead.
	Key []byte
	// Log receives failures with their details, which visitors do not see. Defaults to slog.Default.
	Log *slog.Logger
	// Now returns the time. Defaults to time.Now.
	Now func() time.Time
}

const (
	defaultReadUnits = 600
	// leastKey is the least length of Options.Key, in bytes.
	leastKey = 32
)

// withDefaults returns a checked copy of the options with their defaults filled in, and a random Key for an
// empty one. It fails with a *ValidationError.
func (opts *Options) withDefaults() (Options, error) {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	switch {
	case o.Authorize == nil:
		return o, invalid("options.Authorize", "is nil; say who may see the console, for example from the session of your service")
	case len(o.Key) > 0 && len(o.Key) < leastKey:
		return o, invalid("options.Key", "has %d bytes; give %d or more random ones, or none", len(o.Key), leastKey)
	case o.ReadUnits < 0:
		return o, invalid("options.ReadUnits", "is %v; give more than 0, or 0 for %d", o.ReadUnits, defaultReadUnits)
	}
	if err := o.Theme.check(); err != nil {
		return o, err
	}
	if o.Prefix == "" {
		o.Prefix = "/"
	}
	if !strings.HasPrefix(o.Prefix, "/") || !strings.HasSuffix(o.Prefix, "/") || strings.Contains(o.Prefix, "//") {
		return o, invalid("options.Prefix", "is %q; begin and end it with one slash, as in /limits/", o.Prefix)
	}
	if len(o.Hosts) == 0 {
		o.Hosts = []string{"localhost", "127.0.0.1", "::1"}
	}
	if o.Location == nil {
		o.Location = time.UTC
	}
	if o.ReadUnits == 0 {
		o.ReadUnits = defaultReadUnits
	}
	if len(o.Key) == 0 {
		o.Key = make([]byte, leastKey)
		_, _ = rand.Read(o.Key) // never fails
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o, nil
}

// invalid returns a *ValidationError about a field, with a formatted reason.
func invalid(field, format string, args ...any) error {
	return &dynalimit.ValidationError{Field: field, Reason: fmt.Sprintf(format, args...)}
}
