package wire

// EstimateQuery is the query for the cost of a call.
type EstimateQuery struct {
	Label string `query:"model_label" required:"true" pattern:"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$" doc:"One of the app's ordering" example:"premium"`
	Input int64  `query:"input_tokens" minimum:"0" maximum:"100000000" doc:"The prompt's tokens" example:"1500"`
	Most  int64  `query:"max_tokens" minimum:"0" maximum:"100000000" doc:"The most tokens of the reply" example:"800"`
}

// Estimate is the cost of a call.
type Estimate struct {
	Label  string `json:"model_label" doc:"The label"`
	Micros int64  `json:"estimate_usd_micros" doc:"At the label's price now, rounded up"`
}
