package wire

import (
	"encoding/json"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/prices"
)

// Tokens is one call's tokens by class.
type Tokens struct {
	Input        int64 `json:"input,omitempty" minimum:"0" maximum:"100000000" doc:"Uncached input" example:"1500"`
	CacheRead    int64 `json:"cache_read,omitempty" minimum:"0" maximum:"100000000" doc:"Input read from the prompt cache"`
	CacheWrite5m int64 `json:"cache_write_5m,omitempty" minimum:"0" maximum:"100000000" doc:"Input written to the cache for 5 minutes"`
	CacheWrite1h int64 `json:"cache_write_1h,omitempty" minimum:"0" maximum:"100000000" doc:"Input written to the cache for an hour"`
	Output       int64 `json:"output,omitempty" minimum:"0" maximum:"100000000" doc:"The reply, reasoning included" example:"800"`
}

// Usage is the usage of one call.
type Usage struct {
	RequestID string    `json:"request_id" pattern:"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$" patternDescription:"a lower-case UUID" doc:"The call is counted once under this id, however often it is sent" example:"7c9e6679-7425-40de-944b-e07fc1f90ae7"`
	Label     string    `json:"model_label" pattern:"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$" doc:"The label that the call was made under" example:"premium"`
	Model     string    `json:"model_id,omitempty" pattern:"^[ -~]{0,256}$" patternDescription:"at most 256 printable characters" doc:"The model that was called, by which the call is priced: one that the label has, or had in the last two days. Empty: the label's" example:"anthropic.claude-3-5-sonnet-20241022-v2:0"`
	Tokens    Tokens    `json:"tokens" doc:"What the provider reported. The classes are disjoint"`
	Status    string    `json:"status,omitempty" pattern:"^[ -~]{0,32}$" patternDescription:"at most 32 printable characters" doc:"How the call ended. Defaults to OK" example:"OK"`
	Time      time.Time `json:"timestamp" doc:"When the call was made, with its zone: 24 hours ago to 300 seconds ahead" example:"2026-01-23T15:30:45Z"`
	Tags      Tags      `json:"tags,omitempty" maxProperties:"4" doc:"Of few distinct values: cost is counted per value and day"`
}

// Budget converts the record for the keeper, with empty tags as nil. The zero time means now there, but year 1
// here, so Budget adds a nanosecond to it.
func (u Usage) Budget() prices.Usage {
	if u.Time.IsZero() {
		u.Time = u.Time.Add(time.Nanosecond)
	}
	if len(u.Tags) == 0 {
		u.Tags = nil
	}
	return prices.Usage{
		RequestID: u.RequestID, Label: u.Label, Model: u.Model,
		Tokens: prices.Tokens(u.Tokens), Status: u.Status, Time: u.Time, Tags: u.Tags,
	}
}

// The statuses of a Receipt.
const (
	StatusAccepted  = "accepted"
	StatusDuplicate = "duplicate"
	StatusSpooled   = "spooled"
	StatusFailed    = "failed"
)

// Receipt is the result of counting a record, with the app's spend afterwards.
type Receipt struct {
	RequestID string `json:"request_id" doc:"The record's id"`
	Status    string `json:"status" enum:"accepted,duplicate,spooled" doc:"duplicate: it was counted before, as this says. spooled: the store did not answer; it is kept and will be counted"`
	Label     string `json:"model_label" doc:"The record's label"`
	budget.Receipt
}

// NewReceipt converts the receipt of record u for a response, with its status: accepted,
// duplicate or spooled.
func NewReceipt(u prices.Usage, r budget.Receipt) Receipt {
	r.ResetAt = r.ResetAt.UTC()
	out := Receipt{u.RequestID, StatusAccepted, u.Label, r}
	switch {
	case r.Spooled:
		out.Status = StatusSpooled
	case r.Duplicate:
		out.Status = StatusDuplicate
	}
	return out
}

// Batch is records that are counted together.
type Batch struct {
	Records []Record `json:"records" minItems:"1" maxItems:"100" nullable:"false" doc:"1 to 100 records; each is counted or refused by itself"`
}

// Record is an undecoded Usage, so that an invalid one fails alone.
type Record struct{ json.RawMessage }

// UnmarshalJSON stores the record undecoded.
func (r *Record) UnmarshalJSON(data []byte) error { return r.RawMessage.UnmarshalJSON(data) }

// Schema returns the schema of Usage, for the API's document, although a record of a batch is decoded later
// than its request.
func (Record) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(usageType, true, "Usage")
}

// BatchReceipt is the result of a batch.
type BatchReceipt struct {
	Accepted   int           `json:"accepted" doc:"Records that are counted, duplicates among them"`
	Duplicates int           `json:"duplicate" doc:"Records that had been counted before, or earlier in the batch"`
	Failed     int           `json:"failed" doc:"Records that were refused"`
	Results    []BatchResult `json:"results" nullable:"false" doc:"One for each record, in their order"`
}

// BatchResult is the result of one record of a batch.
type BatchResult struct {
	Index   int         `json:"index" doc:"Which record"`
	Status  string      `json:"status" enum:"accepted,duplicate,spooled,failed" doc:"What became of it"`
	Receipt *Receipt    `json:"receipt,omitempty" doc:"Unless it failed"`
	Error   *BatchError `json:"error,omitempty" doc:"If it failed"`
}

// BatchError is the reason that a record of a batch was refused.
type BatchError struct {
	Code    Code    `json:"error" doc:"What is wrong, for programs; the codes of the body of an error"`
	Message string  `json:"message" doc:"What is wrong, for people"`
	Details Details `json:"details" doc:"What more there is to know"`
}
