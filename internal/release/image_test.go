package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// instruction is one of an image's definition, its lines joined.
type instruction struct{ name, rest string }

func instructions(text string) (all []instruction) {
	text = regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAllString(text, "")
	for _, line := range strings.Split(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		if name, rest, _ := strings.Cut(strings.TrimSpace(line), " "); name != "" {
			all = append(all, instruction{strings.ToUpper(name), strings.Join(strings.Fields(rest), " ")})
		}
	}
	return all
}

// imageProblems is what an image's definition does that no image of ours may do.
func imageProblems(text string) (problems []string) {
	all := instructions(text)
	last := 0
	for i, in := range all {
		switch in.name {
		case "FROM":
			last = i
			base := strings.Fields(regexp.MustCompile(`--\S+ `).ReplaceAllString(in.rest, ""))[0]
			if base != "${GO_IMAGE}" && base != "${BASE_IMAGE}" {
				problems = append(problems, "a base is no argument: "+base)
			}
		case "ARG":
			if strings.Contains(in.rest, "=") {
				problems = append(problems, "an argument has a default: "+in.rest)
			}
		case "ADD":
			problems = append(problems, "ADD may fetch and unpack: "+in.rest)
		case "RUN":
			if regexp.MustCompile(`curl|wget|apt|apk|https?:`).MatchString(in.rest) {
				problems = append(problems, "a step fetches what is not pinned: "+in.rest)
			}
		}
	}
	ends := map[string]string{}
	for _, in := range all[last:] {
		ends[in.name] += in.rest
	}
	if !regexp.MustCompile(`^65532:65532$`).MatchString(ends["USER"]) {
		problems = append(problems, "the user is not 65532: "+ends["USER"])
	}
	if ends["ENTRYPOINT"] != `["/usr/bin/dynalimit"]` || ends["CMD"] != "" {
		problems = append(problems, "a shell, or another program, begins it: "+ends["ENTRYPOINT"]+ends["CMD"])
	}
	if ends["RUN"] != "" {
		problems = append(problems, "a step runs on the base, which has no shell: "+ends["RUN"])
	}
	for _, label := range []string{"title", "description", "source", "licenses", "version", "revision", "created"} {
		if !strings.Contains(ends["LABEL"], "org.opencontainers.image."+label+"=") {
			problems = append(problems, "a label is missing: "+label)
		}
	}
	if regexp.MustCompile(`:latest|[a-z0-9-]+\.(io|com|dev|org)/[a-z0-9-]+/?[a-z0-9-]*:`).MatchString(text) {
		problems = append(problems, "it names a server of images, or a tag that moves")
	}
	return problems
}

func TestImageRunsOneBinaryWithoutRights(t *testing.T) {
	text, err := os.ReadFile("../../Dockerfile")
	require.NoError(t, err)
	definition := string(text)
	assert.Empty(t, imageProblems(definition))

	for name, change := range map[string][2]string{
		"root":              {"USER 65532:65532\n", ""},
		"another user":      {"USER 65532:65532", "USER nobody"},
		"a shell":           {`ENTRYPOINT ["/usr/bin/dynalimit"]`, "ENTRYPOINT /usr/bin/dynalimit"},
		"something else":    {`ENTRYPOINT`, "CMD [\"local\"]\nENTRYPOINT"},
		"a moving tag":      {"FROM ${BASE_IMAGE}", "FROM debian:latest"},
		"a default":         {"ARG BASE_IMAGE", "ARG BASE_IMAGE=example.com/base:1"},
		"a download":        {"USER", "ADD https://example.com/x /x\nUSER"},
		"a package":         {"RUN GOOS", "RUN apt-get install -y git\nRUN GOOS"},
		"a step at the end": {"USER", "RUN chmod 777 /usr/bin/dynalimit\nUSER"},
		"no version":        {"image.version", "image.edition"},
	} {
		changed := strings.Replace(definition, change[0], change[1], 1)
		require.NotEqual(t, definition, changed, name)
		assert.NotEmpty(t, imageProblems(changed), name)
	}
}

// TestImageIsMadeOfSources: what git does not know, and its own folder, with whatever
// credentials are there, stay outside.
func TestImageIsMadeOfSources(t *testing.T) {
	text, err := os.ReadFile("../../.dockerignore")
	require.NoError(t, err)
	ignored := strings.Split(string(text), "\n")
	for _, name := range []string{".*", "bin", "dist", "coverage.txt"} {
		assert.True(t, slices.Contains(ignored, name), name)
	}
	unknown, err := os.ReadFile("../../.gitignore")
	require.NoError(t, err)
	for _, name := range strings.Fields(string(unknown)) {
		name = strings.Trim(name, "/")
		assert.True(t, slices.ContainsFunc(ignored, func(i string) bool { return i != "" && strings.Contains(name, strings.TrimPrefix(i, "**/")) }), name)
	}
}
