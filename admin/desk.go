package admin

import (
	"context"

	"github.com/dynalimit/dynalimit/internal/shared"
	"github.com/dynalimit/dynalimit/internal/trail"
)

// desk is what every change needs, whatever its subject.
type desk struct{ repo shared.Repository }

// mayChange returns who makes a change. It fails if that is to be known and is not, and
// if the table is not to be changed by this version.
func (d *desk) mayChange(ctx context.Context) (by string, err error) {
	if by, err = d.principal(); err != nil {
		return "", err
	}
	return by, d.repo.Layout.Check(ctx)
}

// principal is who makes a change.
func (d *desk) principal() (string, error) {
	if d.repo.Author == "" && d.repo.Anonymous {
		return "", nil
	}
	if d.repo.Author == "" {
		return "", invalid("principal", "is not set; say who makes the change with Repository.As or RepositoryOptions.Principal, or allow that nobody is named with RepositoryOptions.AllowAnonymous")
	}
	if reason := trail.CheckPrincipal(d.repo.Author); reason != "" {
		return "", invalid("principal", "%s", reason)
	}
	return d.repo.Author, nil
}
