package budgethttp

import (
	"context"
	"net/http"
	"time"

	"github.com/dynalimit/dynalimit/budget/budgethttp/internal/wire"
)

type (
	reserveInput struct {
		wire.AppPath
		Body wire.Reserve
	}
	holdOutput  struct{ Body wire.Hold }
	settleInput struct {
		wire.HoldPath
		Body wire.Usage
	}
	extendInput struct {
		wire.HoldPath
		Body wire.Extend
	}
)

func (s *Server) holdRoutes() {
	of := route{method: http.MethodPost, tag: "holds", needs: bearer, conflict: wire.IdempotencyConflict, errors: []int{http.StatusConflict}}
	reserve, settle, release, extend := of, of, of, of

	reserve.id, reserve.path, reserve.status = "reserve", appRoute+"/holds", http.StatusCreated
	reserve.summary, reserve.request, reserve.response = "Set money aside for a call", exampleReserve, exampleHold
	reserve.errors = append(reserve.errors, http.StatusTooManyRequests)
	reserve.description = "Under hard enforcement never more than the quota is held and spent. Sent again it is the same hold; 409: the id was used for something else, or its hold has ended. 429: there is no room. Settle it with what the call cost, or release it; else it ends with its lease."
	register(s, reserve, func(ctx context.Context, _ *exchange, in *reserveInput) (*holdOutput, error) {
		b := in.Body
		h, err := s.keeper.ReserveAs(ctx, in.Org, in.App, b.ID, b.Label, int64(b.EstimateMicros), time.Duration(b.LeaseSecs)*time.Second)
		if err != nil {
			return nil, err
		}
		return &holdOutput{wire.NewHold(h)}, nil
	})

	settle.id, settle.path, settle.status = "settle", appRoute+"/holds/{hold_id}/settle", http.StatusAccepted
	settle.summary, settle.request = "Count what a call cost, and give its hold back", exampleUsage
	settle.description = "It is the usage of the call: do not send it as usage too. After the lease it counts all the same. 404: there was no such reservation; send it as usage."
	register(s, settle, s.settle)

	release.id, release.path, release.status = "release", appRoute+"/holds/{hold_id}/release", http.StatusNoContent
	release.summary = "Give a hold back, because the call was not made"
	release.description = "One that has ended is fine."
	register(s, release, func(ctx context.Context, _ *exchange, in *wire.HoldPath) (*struct{}, error) {
		h, err := s.keeper.GetHold(ctx, in.Org, in.App, in.ID)
		if err != nil {
			return nil, err
		}
		return nil, h.Release(ctx)
	})

	extend.id, extend.path = "extend", appRoute+"/holds/{hold_id}/extend"
	extend.summary, extend.request = "Keep a hold longer", exampleExtend
	extend.description = "For a call that takes longer. 404: it has ended, and the money was given back."
	register(s, extend, func(ctx context.Context, _ *exchange, in *extendInput) (*holdOutput, error) {
		h, err := s.keeper.GetHold(ctx, in.Org, in.App, in.ID)
		if err == nil {
			err = h.Extend(ctx, time.Duration(in.Body.LeaseSecs)*time.Second)
		}
		if err != nil {
			return nil, err
		}
		return &holdOutput{wire.NewHold(h)}, nil
	})
}

func (s *Server) settle(ctx context.Context, _ *exchange, in *settleInput) (*usageOutput, error) {
	h, err := s.keeper.GetHold(ctx, in.Org, in.App, in.ID)
	if err != nil {
		return nil, err
	}
	usage := in.Body.Budget()
	receipt, err := h.Settle(ctx, usage)
	if err != nil {
		return nil, err
	}
	return counted(wire.NewReceipt(usage, receipt)), nil
}
