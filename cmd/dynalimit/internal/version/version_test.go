package version

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const hash = "0123456789abcdef0123456789abcdef01234567"

func TestVersionIsTheStampOrWhatGoRecorded(t *testing.T) {
	cloned := []debug.BuildSetting{
		{Key: "vcs", Value: "git"},
		{Key: "vcs.revision", Value: hash},
		{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
		{Key: "vcs.modified", Value: "true"},
	}
	for name, test := range map[string]struct {
		stamp Stamp
		build *debug.BuildInfo
		want  Info
		line  string
	}{
		"stamped": {
			Stamp{"v1.2.3", hash, "2026-01-02T03:04:05Z"},
			&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: cloned},
			Info{Version: "v1.2.3", Commit: hash, Date: "2026-01-02T03:04:05Z"},
			"dynalimit v1.2.3 (commit 0123456789ab of 2026-01-02T03:04:05Z)",
		},
		"go install": {
			Stamp{},
			&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}},
			Info{Version: "v1.2.3"},
			"dynalimit v1.2.3",
		},
		"a clone": {
			Stamp{},
			&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: cloned},
			Info{Version: "devel", Commit: hash, Date: "2026-01-02T03:04:05Z", Modified: true},
			"dynalimit devel (commit 0123456789ab of 2026-01-02T03:04:05Z with changes)",
		},
		"a test":        {Stamp{}, &debug.BuildInfo{}, Info{Version: "devel"}, "dynalimit devel"},
		"not a module":  {Stamp{}, nil, Info{Version: "devel"}, "dynalimit devel"},
		"a short stamp": {Stamp{Version: "v1.2.3", Commit: "01"}, nil, Info{Version: "v1.2.3", Commit: "01"}, "dynalimit v1.2.3 (commit 01)"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Of(test.stamp, test.build)
			assert.Equal(t, test.want, got)
			assert.Equal(t, test.line, got.String())
		})
	}
}

func TestCurrentVersionNamesGoAndPlatform(t *testing.T) {
	info := Current()
	assert.NotEmpty(t, info.Version)
	assert.Contains(t, info.String(), runtime.Version()+", "+runtime.GOOS+"/"+runtime.GOARCH+")")

	text, err := json.Marshal(Info{Version: "v1.2.3", Go: "go1.26.0", Platform: "linux/amd64"})
	require.NoError(t, err)
	assert.JSONEq(t, `{"version":"v1.2.3","go":"go1.26.0","platform":"linux/amd64"}`, string(text))
}
