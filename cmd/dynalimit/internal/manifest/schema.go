package manifest

import _ "embed"

// Schema is the JSON Schema (draft 2020-12) of manifests, for editors. What it refuses Parse
// refuses too; sums, names that stand twice and cycles are Parse's alone.
//
//go:embed schema.json
var Schema []byte
