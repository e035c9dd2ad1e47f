package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/dynalimit/dynalimit"
)

// JSON is a manifest as JSON, which is YAML too. The text has to be one that Parse reads.
func JSON(text []byte) ([]byte, error) {
	r := &reader{file: "manifest"}
	root := r.read(text)
	if root == nil {
		return nil, r.problems
	}
	d := &decoder{reader: r, most: 1 << 30, bounds: unbounded}
	var b, out bytes.Buffer
	d.json(&b, root, "", 0)
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	if err := json.Indent(&out, b.Bytes(), "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// Size says how much a manifest is.
func Size(m *Manifest) string {
	return fmt.Sprintf("%s and %s", plural(len(m.Configs), "level", "levels"), plural(len(m.Entities), "entity", "entities"))
}

var _ Table = (*dynalimit.Repository)(nil)
