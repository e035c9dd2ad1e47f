package budgethttp

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/dynalimit/dynalimit/budget"
	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
)

// failure is what an error of the keeper is answered with. A conflict is one of request
// ids or of changes at the same time: the route knows.
func (s *Server) failure(err error, x *exchange, conflict wire.Code) *wire.Error {
	var (
		shaped   *wire.Error
		bad      *budget.ValidationError
		exceeded *budget.QuotaExceededError
	)
	if e := cmp.Or(ofLogin(err), ofCredentials(err)); e != nil {
		return e
	}
	_, waits := budget.RetryAfter(err)
	switch {
	case errors.As(err, &shaped):
		return shaped
	case errors.As(err, &bad):
		return wire.NewError(http.StatusBadRequest, wire.Code(bad.Code.String()), bad.Field+": "+bad.Reason).Field(bad.Field, bad.Reason)
	case errors.As(err, &exceeded):
		return quotaExceeded(err, exceeded)
	case errors.Is(err, budget.ErrNotFound):
		return wire.NewError(http.StatusNotFound, wire.NotFound, "there is no such organisation or app")
	case errors.Is(err, budget.ErrConflict) && waits:
		return wire.NewError(http.StatusConflict, conflict, "it is being deleted: put it again when that is complete, or complete it with DELETE").
			With("Retry-After", seconds(retryAfter(err)))
	case errors.Is(err, budget.ErrConflict) && conflict == wire.ConcurrentModification:
		return wire.NewError(http.StatusConflict, conflict, "it was changed by somebody else at the same time: try again")
	case errors.Is(err, budget.ErrConflict):
		return wire.NewError(http.StatusConflict, conflict, "the id was used before, with other contents")
	case errors.Is(err, budget.ErrUnavailable), errors.Is(err, budget.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		s.log(x, "unavailable", err)
		return wire.NewError(http.StatusServiceUnavailable, wire.ServiceUnavailable, "the store does not answer: send the same again").
			With("Retry-After", seconds(retryAfter(err)))
	}
	return s.internal(err, x)
}

// internal is what nobody is told the reason of.
func (s *Server) internal(err error, x *exchange) *wire.Error {
	s.log(x, "failed", err)
	return wire.NewError(http.StatusInternalServerError, wire.InternalError, "something went wrong; the log has it under this request_id")
}

func quotaExceeded(err error, exceeded *budget.QuotaExceededError) *wire.Error {
	out := wire.NewError(http.StatusTooManyRequests, wire.QuotaExceeded, "no label has room left")
	out.Details.Labels = wire.NewLabels(exceeded.Labels)
	out.Details.TotalOverageUSDMicros = &exceeded.OverageMicros
	if at, ok := budget.RetryAt(err); ok {
		at = at.UTC()
		out.Details.RetryAfter = &at
	}
	if wait, ok := budget.RetryAfter(err); ok {
		return out.With("Retry-After", seconds(wait))
	}
	return out
}

// retryAfter is when to ask again of a store that does not answer.
func retryAfter(err error) time.Duration {
	wait, _ := budget.RetryAfter(err)
	return max(wait, time.Second)
}

// seconds is a wait as Retry-After has it: whole seconds, not too short.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64(math.Ceil(d.Seconds())), 10)
}
