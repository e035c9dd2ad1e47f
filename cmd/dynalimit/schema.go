package main

import (
	"embed"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/dynalimit/dynalimit"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/decision"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/ledger"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/manifest"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/report"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/shape"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/stack"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/tables"
	"github.com/dynalimit/dynalimit/cmd/dynalimit/internal/term"
)

// schemaCmd prints what a command's JSON is like.
type schemaCmd struct {
	Command []string `arg:"" help:"The command, such as limits list."`
}

func (c schemaCmd) Run(out *term.Output) error {
	text, err := schemaOf(strings.Join(c.Command, " "))
	if err == nil {
		_, err = out.Write(append(text, '\n'))
	}
	return err
}

// results are of the type that a command prints with --json, by its words.
var results = map[string]any{
	"audit":     []dynalimit.AuditEvent{},
	"block set": levelChange{}, "block lift": levelChange{}, "block list": []dynalimit.Scope{},
	"bucket reset": refillJSON{}, "bucket top-up": refillJSON{},
	"check":         decision.Decision{},
	"doctor":        findings{},
	"entity create": entityChange{}, "entity update": entityChange{}, "entity delete": entityDeletion{},
	"entity show": entityJSON{}, "entity list": []entityJSON{}, "entity children": []entityJSON{}, "entity buckets": []bucketJSON{},
	"limits set": levelChange{}, "limits delete": levelChange{}, "limits show": dynalimit.ScopedConfig{},
	"limits list": []dynalimit.ScopedConfig{}, "limits resolve": dynalimit.ResolvedLimits{},
	"manifest plan": manifest.Plan{}, "manifest apply": applied{}, "manifest validate": validated{},
	"migrate":        migrateJSON{},
	"namespace list": []namespaceJSON{}, "namespace register": namespaceChange{}, "namespace delete": namespaceChange{},
	"namespace recover": namespaceChange{}, "namespace purge": purgeJSON{},
	"plan set": levelChange{}, "plan delete": levelChange{}, "plan show": dynalimit.ScopedConfig{}, "plan list": []string{},
	"resource set": levelChange{}, "resource delete": levelChange{}, "resource show": dynalimit.ScopedConfig{}, "resource list": []string{},
	"schema":       map[string]any{},
	"stack deploy": deployed{}, "stack delete": stackDeletion{}, "stack status": stackStatus{}, "stack list": []*stack.Stack{},
	"system set": levelChange{}, "system delete": levelChange{}, "system show": dynalimit.ScopedConfig{},
	"template":     template{},
	"table create": []tables.Result{}, "table status": tablesStatus{}, "table delete": []tableLoss{},
	"tail":         followed{}, // of each line
	"top":          seen{},
	"usage export": exported{}, "usage list": []ledger.Row{}, "usage report": report.Report{}, "usage top": topUsage{},
	"version": versionJSON{},
}

// selfWritten are types that write themselves, and what they write.
var selfWritten = map[reflect.Type]any{
	reflect.TypeFor[dynalimit.Limit](): struct {
		Name         string `json:"name"`
		Capacity     int64  `json:"capacity"`
		Burst        int64  `json:"burst,omitempty"`
		RefillAmount int64  `json:"refill_amount,omitempty"`
		Period       string `json:"period"`
	}{},
}

// budgetSchemas are those of the commands of budgets, with what they share in common.json.
//
//go:embed schemas
var budgetSchemas embed.FS

// schemaOf is the schema of what a command prints.
func schemaOf(command string) ([]byte, error) {
	if command == "manifest export" {
		return manifest.Schema, nil
	}
	if result, ok := results[command]; ok {
		return json.MarshalIndent(shape.Of(result, selfWritten), "", "  ")
	}
	text, err := budgetSchemas.ReadFile("schemas/" + strings.ReplaceAll(command, " ", "-") + ".json")
	if err != nil {
		return nil, badInput("no command %q prints JSON: 'dynalimit --help' lists the commands", command)
	}
	common, err := budgetSchemas.ReadFile("schemas/common.json")
	if err != nil {
		return nil, err
	}
	var s, shared map[string]any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), "common.json#", "#")), &s); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(common, &shared); err != nil {
		return nil, err
	}
	defs, _ := shared["$defs"].(map[string]any)
	own, _ := s["$defs"].(map[string]any)
	for name, def := range own {
		defs[name] = def
	}
	s["$defs"] = defs
	return json.MarshalIndent(s, "", "  ")
}
