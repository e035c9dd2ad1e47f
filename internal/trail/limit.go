package trail

// Limit is a limit as events show it, in the words of the source.
type Limit struct {
	Name     string `json:"name"`
	Capacity int64  `json:"capacity"`
	Burst    int64  `json:"burst"`
	Amount   int64  `json:"refill_amount"`
	Period   int64  `json:"refill_period_seconds,omitempty"`
	Window   string `json:"window,omitempty"`
	Zone     string `json:"zone,omitempty"`
	Unit     string `json:"unit,omitempty"`
	PerModel bool   `json:"per_model,omitempty"`
	MaxDebt  int64  `json:"max_debt,omitempty"`
	Reserve  int64  `json:"reserve,omitempty"`
	Shadow   bool   `json:"shadow,omitempty"`
	Hold     int64  `json:"hold_seconds,omitempty"`
	Longest  int64  `json:"longest_seconds,omitempty"`
	AlertAt  []int  `json:"alert_at,omitempty"`
}

// Raise is a raise of a limit as events show it.
type Raise struct {
	Name     string `json:"name"`
	Capacity int64  `json:"capacity"`
	Period   int64  `json:"refill_period_seconds"`
	Until    string `json:"until"`
}
