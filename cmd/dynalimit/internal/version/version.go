// Package version returns the release of the program: the stamp of the release, or else the
// record of the go command.
package version

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// Set by scripts/release.sh through the linker's -X.
var (
	version string
	commit  string
	date    string
)

// Stamp is the stamp of a release build.
type Stamp struct {
	Version string // the release, such as v1.2.3; empty without a stamp
	Commit  string // the full hash of the commit
	Date    string // date of that commit, in RFC 3339 and UTC
}

// Info identifies a build of the program.
type Info struct {
	Version  string `json:"version"`            // v1.2.3, a pseudo-version of a commit, or "devel"
	Commit   string `json:"commit,omitempty"`   // the full hash; empty if it was not recorded
	Date     string `json:"date,omitempty"`     // of the commit, in RFC 3339 and UTC; empty if it was not recorded
	Modified bool   `json:"modified,omitempty"` // files differed from the commit
	Go       string `json:"go"`                 // the release of Go that built it
	Platform string `json:"platform"`           // operating system and architecture, such as linux/amd64
}

// Current returns the version, commit and platform of the running program.
func Current() Info {
	build, _ := debug.ReadBuildInfo()
	info := Of(Stamp{Version: version, Commit: commit, Date: date}, build)
	info.Go, info.Platform = runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH
	return info
}

// Of returns the build's version, commit and date from the stamp, or else from build, the go command's record,
// which may be nil. Without either the version is "devel". It does not set Go and Platform.
func Of(stamp Stamp, build *debug.BuildInfo) Info {
	if stamp.Version != "" {
		return Info{Version: stamp.Version, Commit: stamp.Commit, Date: stamp.Date}
	}
	info := Info{Version: "devel"}
	if build == nil {
		return info
	}
	if recorded := build.Main.Version; recorded != "" && recorded != "(devel)" {
		info.Version = recorded
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Commit = s.Value
		case "vcs.time":
			info.Date = s.Value
		case "vcs.modified":
			info.Modified = s.Value == "true"
		}
	}
	return info
}

// String formats the build for people as one line: dynalimit v1.2.3 (commit 0123456789ab of
// 2026-01-02T03:04:05Z, go1.26.0, linux/amd64).
func (i Info) String() string {
	var parts []string
	if i.Commit != "" {
		part := "commit " + i.Commit[:min(12, len(i.Commit))]
		if i.Date != "" {
			part += " of " + i.Date
		}
		if i.Modified {
			part += " with changes"
		}
		parts = append(parts, part)
	}
	for _, part := range []string{i.Go, i.Platform} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	text := "dynalimit " + i.Version
	if len(parts) > 0 {
		text += " (" + strings.Join(parts, ", ") + ")"
	}
	return text
}
