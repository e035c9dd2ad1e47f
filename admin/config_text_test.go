package admin_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/sources"
)

// What operators' tools write and show has names in lower case, as a limit has, and leaves
// out what says nothing.
func TestConfigurationAsJSON(t *testing.T) {
	limits := []dynalimit.Limit{dynalimit.PerMinute("rpm", 600).WithBurst(900)}
	const rpm = `{"name":"rpm","capacity":600,"burst":900,"period":"1m"}`
	for want, value := range map[string]any{
		`{}`:                                    admin.Scope{Everyone: true},
		`{"entity":"key-1","resource":"gpt-4"}`: admin.Scope{Entity: "key-1", Resource: "gpt-4"},
		`{"plan":"pro"}`:                        admin.Scope{Plan: "pro"},
		`{"limits":[` + rpm + `],"blocked":true,"on_unavailable":"local","version":3}`: admin.LimitConfig{
			Limits: limits, Blocked: true, OnUnavailable: dynalimit.Local, Version: 3,
		},
		`{"unlimited":true,"version":-1}`:                            admin.LimitConfig{Unlimited: true, Version: admin.AnyVersion},
		`{"scope":{"plan":"pro"},"config":{"limits":[` + rpm + `]}}`: admin.ScopedConfig{Scope: admin.Scope{Plan: "pro"}, Config: admin.LimitConfig{Limits: limits}},
		`{"scope":{},"delete":true}`:                                 admin.ScopedConfig{Scope: admin.Scope{Everyone: true}, Delete: true},
		`{"entity_id":"key-1","resource":"gpt-4","limits":[` + rpm + `],"source":"plan","plan":"pro","blocked":"system","on_unavailable":"allow","policy_source":"resource","hidden":[{"name":"tpm","source":"system"}],"parent_id":"team","cascade":true}`: dynalimit.ResolvedLimits{
			EntityID: "key-1", Resource: "gpt-4", Limits: limits, Source: sources.Plan, Plan: "pro", Blocked: sources.System, OnUnavailable: dynalimit.Allow, PolicySource: sources.Resource,
			Hidden: []dynalimit.HiddenLimit{{Name: "tpm", Source: sources.System}}, ParentID: "team", Cascade: true,
		},
		`{"entity_id":"key-1","resource":"gpt-4"}`: dynalimit.ResolvedLimits{EntityID: "key-1", Resource: "gpt-4"},
		`{"id":"01KE0JER00WNKX2QXK92X3Q14X","time":"2099-01-02T12:00:00.005Z","principal":"ann","action":"limits_set","target":"$SYSTEM","changes":[{"field":"blocked","after":true},{"field":"limits","before":[],"after":null}]}`: audit.Event{
			ID: "01KE0JER00WNKX2QXK92X3Q14X", Time: noon().Add(5 * time.Millisecond), Principal: "ann", Action: "limits_set", Target: audit.System,
			Changes: []audit.Change{{Field: "blocked", After: json.RawMessage("true")}, {Field: "limits", Before: json.RawMessage("[]"), After: json.RawMessage("null")}},
		},
	} {
		got, err := json.Marshal(value)
		require.NoError(t, err)
		assert.Equal(t, want, string(got))
	}
}

func TestConfigurationIsReadFromJSON(t *testing.T) {
	for text, want := range map[string]admin.ScopedConfig{
		`{"scope":{"entity":"key-1"},"config":{"limits":[{"name":"rpm","capacity":600,"period":"1m"}],"version":-1}}`: {
			Scope: admin.Scope{Entity: "key-1"}, Config: admin.LimitConfig{Limits: []dynalimit.Limit{{Name: "rpm", Capacity: 600, RefillPeriod: time.Minute, Burst: 600, RefillAmount: 600}}, Version: admin.AnyVersion},
		},
		`{"config":{"blocked":true,"on_unavailable":"block"}}`: {Config: admin.LimitConfig{Blocked: true, OnUnavailable: dynalimit.Refuse}},
		`{"scope":{"resource":"gpt-4"},"delete":true}`:         {Scope: admin.Scope{Everyone: true, Resource: "gpt-4"}, Delete: true},
	} {
		var got admin.ScopedConfig
		require.NoError(t, json.Unmarshal([]byte(text), &got), text)
		assert.Equal(t, want, got)
		again, err := json.Marshal(got)
		require.NoError(t, err)
		var round admin.ScopedConfig
		require.NoError(t, json.Unmarshal(again, &round))
		assert.Equal(t, got, round)
	}
}

// A misspelt field would be a block or a limit that nobody set.
func TestConfigurationOfUnknownFieldsIsRefused(t *testing.T) {
	for text, part := range map[string]string{
		`{"scope":{"entiti":"key-1"}}`:                    `scope: json: unknown field "entiti"`,
		`{"config":{"blokced":true}}`:                     `configuration: json: unknown field "blokced"`,
		`{"config":{"limits":[{"name":"a","burts":1}]}}`:  `unknown field "burts"`,
		`{"scopes":{}}`:                                   `unknown field "scopes"`,
		`{"config":{"version":"3"}}`:                      `write {"limits":[`,
		`{"scope":{"entity":"a"},"config":{"limits":{}}}`: `configuration`,
	} {
		var got admin.ScopedConfig
		assert.ErrorContains(t, json.Unmarshal([]byte(text), &got), part)
	}
}
