package wire

// OrgPath is the path of an organisation's routes.
type OrgPath struct {
	Org string `path:"org_id" pattern:"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$" patternDescription:"a lower-case UUID" doc:"The organisation" example:"550e8400-e29b-41d4-a716-446655440000"`
}

// AppPath is the path of an app's routes.
type AppPath struct {
	OrgPath
	App string `path:"app_id" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" patternDescription:"1 to 64 of A-Z a-z 0-9 . _ -" doc:"The app" example:"app-production-api"`
}

// DayPath is the path of a day's routes.
type DayPath struct {
	Day string `path:"date" pattern:"^([0-9]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2})$" patternDescription:"a date like 2026-01-23" doc:"The organisation's day" example:"2026-01-23"`
}

// DayRange is the query for a range of days.
type DayRange struct {
	From string `query:"from" required:"true" pattern:"^([0-9]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2})$" patternDescription:"a date like 2026-01-23" doc:"The first day" example:"2026-01-01"`
	To   string `query:"to" required:"true" pattern:"^([0-9]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2})$" patternDescription:"a date like 2026-01-23" doc:"The last day, at most 366 days after the first" example:"2026-01-23"`
}

// TokenQuery is a query with a retrieval token.
type TokenQuery struct {
	Token string `query:"token" required:"true" minLength:"1" maxLength:"128" doc:"The retrieval token"`
}
