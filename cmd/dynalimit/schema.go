package main

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/admin"
	"github.com/dynalimit/dynalimit/aggregator"
	"github.com/dynalimit/dynalimit/audit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/decision"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/manifest"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/shape"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/stack"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
	"github.com/dynalimit/dynalimit/keeper/budget"
)

// schemaCmd prints the JSON schema of a command's output.
type schemaCmd struct {
	Command []string `arg:"" help:"The command, such as limits list."`
}

// Run prints the JSON schema of the --json output of the command in the arguments. A command without JSON is
// bad input.
func (c schemaCmd) Run(out *term.Output) error {
	text, err := schemaOf(strings.Join(c.Command, " "))
	if err == nil {
		_, err = out.Write(append(text, '\n'))
	}
	return err
}

// results maps commands to values of their output types.
var results = map[string]any{
	"audit":     []audit.Event{},
	"block set": blockChange{}, "block admit": blockChange{}, "block lift": blockChange{}, "block list": []blockedSource{},
	"bucket grant": refillJSON{}, "bucket reset": refillJSON{}, "bucket resume": resumeJSON{}, "bucket top-up": refillJSON{},
	"budget adjust":      adjustJSON{},
	"budget apps delete": deletionJSON{}, "budget apps list": []appJSON{}, "budget apps put": appJSON{}, "budget apps show": appJSON{},
	"budget credentials create": credentialsJSON{}, "budget credentials revoke": credentialsJSON{},
	"budget credentials rotate": credentialsJSON{}, "budget credentials show": credentialsJSON{},
	"budget history":     []totalsJSON{},
	"budget keys create": keyJSON{}, "budget keys list": []keyJSON{}, "budget keys revoke": keyJSON{},
	"budget keyset create": keysetJSON{}, "budget keyset rotate": keysetJSON{},
	"budget settings set": budget.Settings{}, "budget settings show": budget.Settings{},
	"budget orgs delete": deletionJSON{}, "budget orgs list": []orgJSON{}, "budget orgs put": orgJSON{}, "budget orgs show": orgJSON{},
	"budget override":      overrideJSON{},
	"budget prices import": priceReportJSON{}, "budget prices list": []priceJSON{}, "budget prices reset": priceJSON{}, "budget prices set": priceJSON{},
	"budget quotas set": quotasJSON{}, "budget quotas show": quotasJSON{}, "budget recommend": recommendJSON{},
	"budget sweep": budget.SweepReport{}, "budget today": totalsJSON{},
	"check":         decision.Decision{},
	"doctor":        findings{},
	"entity create": entityChange{}, "entity update": entityChange{}, "entity delete": entityDeletion{},
	"entity show": entityJSON{}, "entity list": []entityJSON{}, "entity children": []entityJSON{}, "entity buckets": []bucketJSON{},
	"limits set": sourceChange{}, "limits add": sourceChange{}, "limits remove": sourceChange{}, "limits lower": sourceChange{}, "limits delete": sourceChange{}, "limits show": admin.ScopedConfig{},
	"limits list": []admin.ScopedConfig{}, "limits resolve": dynalimit.ResolvedLimits{},
	"manifest plan": manifest.Plan{}, "manifest apply": applied{}, "manifest validate": validated{},
	"migrate": migrateJSON{}, "upgrade": upgradeJSON{},
	"namespace list": []namespaceJSON{}, "namespace register": namespaceChange{}, "namespace delete": namespaceChange{},
	"namespace purge": purgeJSON{},
	"plan set":        sourceChange{}, "plan add": sourceChange{}, "plan remove": sourceChange{}, "plan lower": sourceChange{}, "plan delete": sourceChange{}, "plan show": admin.ScopedConfig{}, "plan list": []string{},
	"resource set": sourceChange{}, "resource add": sourceChange{}, "resource remove": sourceChange{}, "resource lower": sourceChange{}, "resource delete": sourceChange{}, "resource show": admin.ScopedConfig{}, "resource list": []string{},
	"schema":       map[string]any{},
	"stack deploy": deployed{}, "stack delete": stackDeletion{}, "stack status": stackStatus{}, "stack list": []*stack.Stack{},
	"system set": sourceChange{}, "system delete": sourceChange{}, "system show": admin.ScopedConfig{},
	"template":     template{},
	"table create": []tables.Result{}, "table status": tablesStatus{}, "table delete": []tableLoss{},
	"tail":         followed{}, // one per line
	"top":          seen{},
	"usage export": exported{}, "usage keep": usageKept{}, "usage list": []aggregator.Usage{}, "usage top": topUsage{},
	"version": versionJSON{},
}

// selfWritten maps types with their own encoding to encoded examples.
var selfWritten = map[reflect.Type]any{
	reflect.TypeFor[dynalimit.Limit](): struct {
		Name         string `json:"name"`
		Capacity     int64  `json:"capacity"`
		Burst        int64  `json:"burst,omitempty"`
		RefillAmount int64  `json:"refill_amount,omitempty"`
		Period       string `json:"period,omitempty"`
		Window       string `json:"window,omitempty"`
		Zone         string `json:"zone,omitempty"`
		Unit         string `json:"unit,omitempty"`
		PerModel     bool   `json:"per_model,omitempty"`
		MaxDebt      int64  `json:"max_debt,omitempty"`
		Reserve      int64  `json:"reserve,omitempty"`
		Shadow       bool   `json:"shadow,omitempty"`
		Hold         string `json:"hold,omitempty"`
		Longest      string `json:"longest,omitempty"`
		AlertAt      []int  `json:"alert_at,omitempty"`
	}{},
}

// schemaOf returns the JSON schema of a command's --json output; command is its words. For manifest export it
// is that of manifests. A command without JSON is bad input.
func schemaOf(command string) ([]byte, error) {
	if command == "manifest export" {
		return manifest.Schema, nil
	}
	if result, ok := results[command]; ok {
		return json.MarshalIndent(shape.Of(result, selfWritten), "", "  ")
	}
	return nil, badInput("no command %q prints JSON: 'dynalimit --help' lists the commands", command)
}
