package prices

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The parts of a model id as patterns.
var (
	regionPattern   = regexp.MustCompile(`^(us|eu|apac|jp|au|ca|sa|us-gov|regional)\.`)
	revisionPattern = regexp.MustCompile(`:\d+$`)
	versionPattern  = regexp.MustCompile(`-v\d+$`)
)

// splitByPattern is SplitModel by the patterns.
func splitByPattern(id string) (string, Scope) {
	id = id[strings.LastIndexByte(id, '/')+1:]
	if rest, ok := strings.CutPrefix(id, "global."); ok {
		return strings.TrimSuffix(rest, ":0"), Global
	}
	return strings.TrimSuffix(regionPattern.ReplaceAllString(id, ""), ":0"), Regional
}

// namesByPattern is ModelNames by the patterns.
func namesByPattern(name string) []string {
	names := []string{name}
	for _, suffix := range []*regexp.Regexp{revisionPattern, versionPattern} {
		if shorter := suffix.ReplaceAllString(name, ""); shorter != name && shorter != "" {
			name = shorter
			names = append(names, name)
		}
	}
	return names
}

func checkModelName(t *testing.T, id string) {
	t.Helper()
	wantName, wantScope := splitByPattern(id)
	name, scope := SplitModel(id)
	assert.Equal(t, wantName, name, "%q", id)
	assert.Equal(t, wantScope, scope, "%q", id)
	assert.Equal(t, namesByPattern(name), ModelNames(name), "%q", id)
}

// Model ids are read part by part as the patterns have it.
func TestModelNames(t *testing.T) {
	prefixes := []string{"", "us.", "eu.", "us-gov.", "us-govt.", "usa.", "US.", ".", "us", "us.eu.", "global.", "global.us.", "regional.", "a/b/", "arn:aws:bedrock:us-east-1:1:model/us."}
	names := []string{"", "m", "x.y", "-v", "-v1", ":0", "é", "m-v1-v2", "m\n"}
	suffixes := []string{"", ":0", ":1", ":01", ":12", ":", "-v2", "-v2:0", "-v2:1", "-v10:12", "-v", "-v:1", ":1-v2", ":1:2", "-V2", "v2", "-v٣", "-v2 ", "-v2\n", "\xff-v2:1"}
	for _, prefix := range prefixes {
		for _, name := range names {
			for _, suffix := range suffixes {
				checkModelName(t, prefix+name+suffix)
			}
		}
	}
}

func FuzzModelNames(f *testing.F) {
	f.Add("us.anthropic.claude-3-5-sonnet-20241022-v2:0")
	f.Add("arn:aws:bedrock:us-east-1:123456789012:inference-profile/global.x-v1:1")
	f.Fuzz(checkModelName)
}
