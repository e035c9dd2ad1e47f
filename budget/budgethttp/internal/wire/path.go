package wire

// OrgPath is the path of what belongs to an organisation.
type OrgPath struct {
	Org string `path:"org_id" pattern:"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$" patternDescription:"a lower-case UUID" doc:"The organisation" example:"550e8400-e29b-41d4-a716-446655440000"`
}

// AppPath is the path of what belongs to an app.
type AppPath struct {
	OrgPath
	App string `path:"app_id" pattern:"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" patternDescription:"1 to 64 of A-Z a-z 0-9 . _ -" doc:"The app" example:"app-production-api"`
}
