package budgethttp

import (
	"context"
	"fmt"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/strict"
	"github.com/dynalimit/dynalimit/keeper/budgethttp/internal/wire"
	"github.com/dynalimit/dynalimit/prices"
)

type (
	usageInput struct {
		wire.AppPath
		Body wire.Usage
	}
	usageOutput struct {
		Replay string `header:"Idempotent-Replay" doc:"true: the record had been counted before"`
		Body   wire.Receipt
	}
	batchInput struct {
		wire.AppPath
		Body wire.Batch
	}
	batchOutput struct{ Body wire.BatchReceipt }
)

// records is the routes to which clients send usage.
type records struct {
	keeper  *budget.Keeper
	answers *answers
	// usage is the schema of one record in the document.
	usage   *huma.Schema
	schemas huma.Registry
}

// newRecords returns the receiver of the routes of usage, and adds the schema of a record to the document d. It
// registers no route.
func newRecords(k *budget.Keeper, d *document) *records {
	schemas := d.api.OpenAPI().Components.Schemas
	return &records{k, d.gate.answers, schemas.Schema(reflect.TypeFor[wire.Usage](), true, "Usage"), schemas}
}

// endpoints returns the routes that count one record or a batch. Both need a token.
func (r *records) endpoints() []endpoint {
	return []endpoint{
		newEndpoint(route{
			id: "submitUsage", method: http.MethodPost, path: appRoute + "/usage", aliases: []string{base + appRoute + "/costs"},
			tag: "usage", summary: "Count what a call cost", needs: bearer, status: http.StatusAccepted,
			description: "Counts a call once under its request_id. Sent again, it is answered with what was counted, and the header Idempotent-Replay; with other contents it is a conflict. After 503 or no answer send the same again.",
			conflict:    wire.IdempotencyConflict, errors: []int{http.StatusConflict},
			request: exampleUsage, response: exampleReceipt,
		}, r.submitUsage),
		newEndpoint(route{
			id: "submitUsageBatch", method: http.MethodPost, path: appRoute + "/usage/batch", aliases: []string{base + appRoute + "/costs/batch"},
			tag: "usage", summary: "Count what up to 100 calls cost", needs: bearer, status: http.StatusMultiStatus,
			description: "Each record is counted or refused by itself, and the answer has one result for each. A repeat within the batch is a duplicate.",
			conflict:    wire.IdempotencyConflict, limit: maxBatch, unread: true,
			request: exampleBatch, response: exampleBatchReceipt,
		}, r.submitBatch),
	}
}

// submitUsage counts a record once and returns its receipt. The response to a repetition has the
// header Idempotent-Replay.
func (r *records) submitUsage(ctx context.Context, _ *exchange, in *usageInput) (*usageOutput, error) {
	usage := in.Body.Budget()
	receipt, err := r.keeper.Submit(ctx, in.Org, in.App, usage)
	if err != nil {
		return nil, err
	}
	return usageResponse(wire.NewReceipt(usage, receipt)), nil
}

// usageResponse returns the response with a receipt. A duplicate has the header
// Idempotent-Replay.
func usageResponse(r wire.Receipt) *usageOutput {
	out := &usageOutput{Body: r}
	if r.Status == wire.StatusDuplicate {
		out.Replay = "true"
	}
	return out
}

// submitBatch counts the well-formed records of a batch of 1 to 100 together. It returns one result for each
// record, in order; a malformed one fails alone. An error means that no record was counted: another number of
// records, or a failure of the whole batch.
func (r *records) submitBatch(ctx context.Context, x *exchange, in *batchInput) (*batchOutput, error) {
	records := in.Body.Records
	if len(records) == 0 || len(records) > 100 {
		return nil, wire.NewError(http.StatusBadRequest, wire.InvalidRequest, fmt.Sprintf("records: %d are not 1 to 100", len(records))).
			Field("records", "expected 1 to 100 of them")
	}
	results := make([]wire.BatchResult, len(records))
	var usages []prices.Usage
	var places []int
	for i, raw := range records {
		usage, bad := r.decodeRecord(raw)
		if bad != nil {
			results[i] = failedResult(i, bad)
			continue
		}
		usages, places = append(usages, usage), append(places, i)
	}
	if len(usages) > 0 {
		counted, err := r.keeper.SubmitBatch(ctx, in.Org, in.App, usages)
		if err != nil {
			return nil, err
		}
		for k, one := range counted {
			results[places[k]] = r.batchResult(x, places[k], usages[k], one)
		}
	}
	return &batchOutput{sumResults(results)}, nil
}

// batchResult returns the response for one record of a batch: its receipt, or the error of that record alone.
// The argument index is the record's index in the request. It logs the cause of a 503 or 500.
func (r *records) batchResult(x *exchange, index int, u prices.Usage, one budget.BatchResult) wire.BatchResult {
	if one.Err != nil {
		return failedResult(index, r.answers.errorResponse(one.Err, x, wire.IdempotencyConflict))
	}
	receipt := wire.NewReceipt(u, one.Receipt)
	return wire.BatchResult{Index: index, Status: receipt.Status, Receipt: &receipt}
}

// failedResult returns the result of a refused record of a batch, with its index in the request and the code,
// message and details of e.
func failedResult(index int, e *wire.Error) wire.BatchResult {
	return wire.BatchResult{Index: index, Status: wire.StatusFailed, Error: &wire.BatchError{Code: e.Code, Message: e.Message, Details: e.Details}}
}

// sumResults returns the receipt of a batch, with counts of accepted, duplicate and failed
// records. A duplicate also counts as accepted.
func sumResults(results []wire.BatchResult) wire.BatchReceipt {
	out := wire.BatchReceipt{Results: results}
	for _, r := range results {
		switch r.Status {
		case wire.StatusFailed:
			out.Failed++
			continue
		case wire.StatusDuplicate:
			out.Duplicates++
		}
		out.Accepted++
	}
	return out
}

// decodeRecord validates and decodes one record of a batch, like the body of a single one. It returns a 400
// response for an invalid record.
func (r *records) decodeRecord(raw wire.Record) (prices.Usage, *wire.Error) {
	var tree any
	if err := unmarshal(raw.RawMessage, &tree); err != nil {
		return prices.Usage{}, wire.NewError(http.StatusBadRequest, wire.InvalidRequest, err.Error())
	}
	var found huma.ValidateResult
	huma.Validate(r.schemas, r.usage, huma.NewPathBuffer(nil, 0), huma.ModeWriteToServer, tree, &found)
	if len(found.Errors) > 0 {
		return prices.Usage{}, validationError(http.StatusBadRequest, "", found.Errors)
	}
	var u wire.Usage
	if err := strict.Unmarshal(raw.RawMessage, &u); err != nil {
		return prices.Usage{}, wire.NewError(http.StatusBadRequest, wire.InvalidRequest, shorten(err.Error()))
	}
	return u.Budget(), nil
}
