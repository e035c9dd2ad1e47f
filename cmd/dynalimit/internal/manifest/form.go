package manifest

import (
	"reflect"

	"go.yaml.in/yaml/v3"

	"github.com/dynalimit/dynalimit/internal/yamlfile"
)

// form is the form of manifest files.
var form = yamlfile.Form{
	Empty:  "write at least a source, such as 'system: {limits: {rpm: 100}}', or print a table's with 'dynalimit manifest export'",
	Scalar: setScalar, Help: func(v any) string { return v.(interface{ help() string }).help() }, Special: decodeSpecial,
}

// setScalar parses a text into the value that to, a pointer to a type of the file, points to. It returns the
// fault of the text, or "". It ignores pointers to other types.
func setScalar(to any, text string) (reason string) {
	switch to := to.(type) {
	case *amount:
		*to, reason = parseAmount(text)
	case *capacity:
		*to, reason = parseCapacity(text)
	case *unit:
		*to, reason = parseUnit(text)
	case *reserve:
		*to, reason = parseReserve(text)
	case *period:
		*to, reason = parsePeriod(text)
	case *window:
		*to, reason = parseWindow(text)
	case *zone:
		*to, reason = parseZone(text)
	case *seconds:
		*to, reason = parseSeconds(text)
	}
	return reason
}

// decodeSpecial decodes the node n into v if its type has a form of its own, such as metadata, and adds faults
// to r. It returns the zero Value if it has finished, else the value to decode as usual: v, or a limit's
// capacity for a number.
func decodeSpecial(r *yamlfile.Reader, v reflect.Value, n *yaml.Node, path string) reflect.Value {
	null := n.ShortTag() == "!!null"
	switch to := v.Addr().Interface().(type) {
	case *metadata:
		*to = encodeJSON(metadataAt(r, n, path, 0))
		return reflect.Value{}
	case *unlimited:
		if n.Kind == yaml.ScalarNode && !null {
			var reason string
			if *to, reason = parseUnlimited(n.Value, yamlfile.IsQuoted(n)); reason != "" {
				r.AddProblem(yamlfile.PlaceOf(n), path, "%s", reason)
			}
			return reflect.Value{}
		}
	case *percents:
		if !null {
			var reason string
			if *to, reason = parsePercents(n); reason != "" {
				r.AddProblem(yamlfile.PlaceOf(n), path, "%s", reason)
			}
			return reflect.Value{}
		}
	case *entity:
		if null || n.Kind == yaml.MappingNode && len(n.Content) == 0 {
			return reflect.Value{}
		}
	case *limit:
		if n.Kind == yaml.ScalarNode && !null {
			return reflect.ValueOf(&to.Capacity).Elem()
		}
	}
	return v
}
