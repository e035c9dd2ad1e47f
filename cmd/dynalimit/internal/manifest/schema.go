package manifest

import _ "embed"

// Schema is the JSON Schema (draft 2020-12) of manifests, for editors. Parse refuses everything
// that the schema refuses, and also wrong sums, duplicate names and cycles.
//
//go:embed schema.json
var Schema []byte
