package wire

// Login requests tokens.
type Login struct {
	ClientID string `json:"client_id" minLength:"1" maxLength:"128" doc:"As an administrator's PUT answered it" example:"org-550e8400-e29b-41d4-a716-446655440000-app-app-production-api"`
	Secret   string `json:"client_secret" minLength:"1" maxLength:"128" doc:"As the retrieval token fetched it"`
}

// Refresh requests a new access token.
type Refresh struct {
	Token string `json:"refresh_token" minLength:"1" maxLength:"4096" doc:"Of a login"`
}

// Revoke ends a token.
type Revoke struct {
	Token string `json:"token" minLength:"1" maxLength:"4096" doc:"An access token, which ends alone, or a refresh token, which ends with all access tokens of its login"`
}

// Granted is the tokens of a login.
type Granted struct {
	AccessToken      string `json:"access_token" doc:"Authorises requests, as Authorization: Bearer"`
	TokenType        string `json:"token_type" enum:"Bearer" doc:"How it is sent"`
	ExpiresIn        int64  `json:"expires_in" doc:"Seconds that it is good" example:"3600"`
	RefreshToken     string `json:"refresh_token,omitempty" doc:"Gets further access tokens; absent in the answer to one"`
	RefreshExpiresIn int64  `json:"refresh_expires_in,omitempty" doc:"Seconds that it is good" example:"604800"`
	Scope            string `json:"scope" enum:"org,app" doc:"org: the organisation and all its apps; app: one app"`
	Org              string `json:"org_id" doc:"The organisation"`
	App              string `json:"app_id,omitempty" doc:"The app, of scope app"`
}
