package keeper

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/dynalimit/dynalimit/keeper/budget"
	"github.com/dynalimit/dynalimit/keeper/credentials"
)

// The organisation and app of Demo.
const (
	demoOrg = "550e8400-e29b-41d4-a716-446655440000"
	demoApp = "demo"
)

// Demo is the access to an organisation and app for trying the API.
type Demo struct {
	// Client is the credentials of the app.
	Client credentials.Credentials
	// Key is a provisioning key.
	Key credentials.Secret
}

// Demo creates the organisation and app of the demonstration, and returns new credentials of the app and a new
// provisioning key named demo. It fails without the tables, and if those credentials or that key exist. It may
// then have created the organisation and app.
func (s *Service) Demo(ctx context.Context) (Demo, error) {
	_, err := s.keeper.Setup().PutOrg(ctx, budget.Org{
		ID: demoOrg, Name: "Demo", Timezone: "UTC", Ordering: []string{"premium", "standard"},
		Quotas: map[string]int64{"premium": 10_000_000, "standard": 5_000_000},
		Models: map[string]string{"premium": "anthropic.claude-3-5-sonnet-20241022-v2:0", "standard": "anthropic.claude-3-haiku-20240307-v1:0"},
		Sticky: true,
	})
	if err != nil {
		return Demo{}, err
	}
	if _, err = s.keeper.Setup().PutApp(ctx, demoOrg, budget.App{ID: demoApp}); err != nil {
		return Demo{}, err
	}
	issued, err := s.store.Create(ctx, demoOrg, demoApp)
	if err != nil {
		return Demo{}, err
	}
	client, err := s.store.Retrieve(ctx, demoOrg, demoApp, issued.Token)
	if err != nil {
		return Demo{}, err
	}
	key, err := s.store.CreateKey(ctx, "demo")
	return Demo{client, key.Secret}, err
}

// Lines returns shell commands, in order, that try the API at url with curl: login, recommendation, usage,
// totals, configuration. They contain the client's secret and the key in plain text. It runs nothing.
func (d Demo) Lines(url string) []string {
	app := url + "/api/v1/orgs/" + demoOrg + "/apps/" + demoApp
	bearer := ` -H "Authorization: Bearer $TOKEN"`
	const isJSON = ` -H 'Content-Type: application/json'`
	return []string{
		fmt.Sprintf(`TOKEN=$(curl -sS --fail-with-body %s/api/v1/auth/token%s -d '{"client_id":"%s","client_secret":"%s"}' | sed 's/.*"access_token":"\([^"]*\)".*/\1/')`,
			url, isJSON, d.Client.ClientID, d.Client.Secret.Reveal()),
		"curl -sS --fail-with-body " + app + "/model-selection" + bearer,
		fmt.Sprintf(`curl -sS --fail-with-body %s/usage%s%s -d '{"request_id":"%s","model_label":"premium","tokens":{"input":1500,"output":800},"status":"OK","timestamp":"'$(date -u +%%Y-%%m-%%dT%%H:%%M:%%SZ)'"}'`,
			app, bearer, isJSON, requestID()),
		"curl -sS --fail-with-body " + app + "/aggregates/today" + bearer,
		"curl -sS --fail-with-body " + url + "/api/v1/orgs/" + demoOrg + " -H 'X-API-Key: " + d.Key.Reveal() + "'",
	}
}

// requestID returns a random UUID of version 4, as the id of a usage record.
func requestID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
