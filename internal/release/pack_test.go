package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var someRelease = identity{
	Version: "v1.2.3", Commit: "0123456789abcdef0123456789abcdef01234567",
	Time: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC), // zip counts in twos
}

var someFiles = []archivedFile{{"dynalimit", []byte("\x7fELF"), true}, {"LICENSE", []byte("MIT\n"), false}}

// member is a file of an archive as a reader sees it.
type member struct {
	name, text string
	mode       os.FileMode
	at         time.Time
}

func TestArchivesHoldTheFilesAndNothingOfTheMachine(t *testing.T) {
	want := []member{
		{"d/dynalimit", "\x7fELF", 0o755, someRelease.Time},
		{"d/LICENSE", "MIT\n", 0o644, someRelease.Time},
	}
	t.Run("tar.gz", func(t *testing.T) {
		var archive, again bytes.Buffer
		require.NoError(t, tarGzip(&archive, "d", someRelease.Time, someFiles))
		require.NoError(t, tarGzip(&again, "d", someRelease.Time.In(time.FixedZone("elsewhere", 20700)), someFiles))
		assert.Equal(t, archive.Bytes(), again.Bytes(), "packed in another time zone")

		plain, err := gzip.NewReader(&archive)
		require.NoError(t, err)
		assert.True(t, plain.ModTime.IsZero(), "gzip's own time")
		var members []member
		for reader := tar.NewReader(plain); ; {
			header, err := reader.Next()
			if err == io.EOF { //nolint:errorlint // as documented
				break
			}
			require.NoError(t, err)
			text, err := io.ReadAll(reader)
			require.NoError(t, err)
			assert.Zero(t, header.Uid+header.Gid)
			assert.Empty(t, header.Uname+header.Gname)
			members = append(members, member{header.Name, string(text), header.FileInfo().Mode(), header.ModTime.UTC()})
		}
		assert.Equal(t, want, members)
	})
	t.Run("zip", func(t *testing.T) {
		var archive bytes.Buffer
		require.NoError(t, zipped(&archive, "d", someRelease.Time, someFiles))
		reader, err := zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
		require.NoError(t, err)
		var members []member
		for _, f := range reader.File {
			part, err := f.Open()
			require.NoError(t, err)
			text, err := io.ReadAll(part)
			require.NoError(t, err)
			members = append(members, member{f.Name, string(text), f.Mode(), f.Modified.UTC()})
		}
		assert.Equal(t, want, members)
	})
	t.Run("zip without a folder", func(t *testing.T) {
		var archive bytes.Buffer
		require.NoError(t, zipped(&archive, "", someRelease.Time, someFiles))
		reader, err := zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
		require.NoError(t, err)
		assert.Equal(t, "dynalimit", reader.File[0].Name)
	})
}

func TestNamesOfAReleaseSayVersionAndPlatform(t *testing.T) {
	assert.Equal(t, "dynalimit_v1.2.3_linux_arm64.tar.gz", archiveName(someRelease, "linux", "arm64"))
	assert.Equal(t, "dynalimit_v1.2.3_windows_amd64.zip", archiveName(someRelease, "windows", "amd64"))
	assert.Equal(t, "dynalimit_v1.2.3_lambda_arm64.zip", archiveName(someRelease, functionSystem, "arm64"))
	assert.Equal(t, "dynalimit_v1.2.3_darwin_amd64.cdx.json", billName(someRelease, "darwin", "amd64"))
	assert.Equal(t, "dynalimit_v1.2.3_checksums.txt", sumsName(someRelease))
}

func TestChecksumsAreOfTheFilesThatAreThere(t *testing.T) {
	out, platforms := t.TempDir(), []string{"linux/amd64", "windows/arm64"}
	for _, name := range []string{
		"dynalimit_v1.2.3_linux_amd64.tar.gz", "dynalimit_v1.2.3_linux_amd64.cdx.json",
		"dynalimit_v1.2.3_windows_arm64.zip", "dynalimit_v1.2.3_windows_arm64.cdx.json",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(out, name), []byte("abc"), 0o600))
	}
	require.NoError(t, writeSums(someRelease, out))
	sums, err := os.ReadFile(filepath.Join(out, "dynalimit_v1.2.3_checksums.txt"))
	require.NoError(t, err)
	assert.Contains(t, string(sums), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  dynalimit_v1.2.3_linux_amd64.tar.gz\n")
	require.NoError(t, verify(someRelease, platforms, out))

	assert.ErrorContains(t, verify(someRelease, platforms[:1], out), "windows_arm64", "a platform too many")
	assert.ErrorContains(t, verify(someRelease, append(platforms, "darwin/arm64"), out), "darwin_arm64", "one is missing")
	require.NoError(t, os.WriteFile(filepath.Join(out, "dynalimit_v1.2.3_windows_arm64.zip"), []byte("abd"), 0o600))
	assert.ErrorContains(t, verify(someRelease, platforms, out), "checksums")
}

func TestIdentityIsWholeOrRefused(t *testing.T) {
	env := map[string]string{"VERSION": "v1.2.3", "COMMIT": someRelease.Commit, "SOURCE_DATE_EPOCH": "1767323046"}
	id, err := identityOf(func(name string) string { return env[name] })
	require.NoError(t, err)
	assert.Equal(t, someRelease, id)
	for name, bad := range map[string]string{"VERSION": "../v1", "COMMIT": "", "SOURCE_DATE_EPOCH": "today"} {
		_, err := identityOf(func(n string) string {
			if n == name {
				return bad
			}
			return env[n]
		})
		assert.ErrorContains(t, err, name)
	}
}

// built is what the go command writes into a binary.
func built() *debug.BuildInfo {
	return &debug.BuildInfo{
		GoVersion: "go1.26.0",
		Path:      ourStamp,
		Main:      debug.Module{Path: ourStamp, Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: ourModule, Version: "(devel)"},
			{Path: "example.com/Lib/v2", Version: "v2.0.0+incompatible", Sum: "h1:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="},
		},
		Settings: []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "arm64"}},
	}
}

func TestBillNamesWhatTheBinaryHolds(t *testing.T) {
	c, err := contentsOf(built())
	require.NoError(t, err)
	var packages []listed
	require.NoError(t, json.Unmarshal([]byte(`[
		{"ImportPath":"fmt"},
		{"ImportPath":"example.com/Lib/v2","Imports":["fmt"],"Module":{"Path":"example.com/Lib/v2","Version":"v2.0.0+incompatible","Dir":"/cache/lib"}},
		{"ImportPath":"`+ourModule+`","Imports":["example.com/Lib/v2"],"Module":{"Path":"`+ourModule+`","Dir":"/src"}},
		{"ImportPath":"`+ourStamp+`","Imports":["fmt","`+ourModule+`"],"Module":{"Path":"`+ourStamp+`","Dir":"/src/cmd"}}]`), &packages))
	require.NoError(t, c.connect(packages))
	for _, p := range c.parts {
		p.licence = licence{id: "MIT"}
	}
	c.standard = licence{id: "BSD-3-Clause"}

	text, err := billOfMaterials(someRelease, c, [32]byte{0xab})
	require.NoError(t, err)
	again, err := billOfMaterials(someRelease, c, [32]byte{0xab})
	require.NoError(t, err)
	assert.Equal(t, string(text), string(again))
	golden, err := os.ReadFile("testdata/bill.json")
	require.NoError(t, err)
	assert.Equal(t, string(golden), string(text))
	other, err := billOfMaterials(someRelease, c, [32]byte{0xac})
	require.NoError(t, err)
	assert.NotEqual(t, serialOf(t, text), serialOf(t, other), "another binary has another serial number")
}

func serialOf(t *testing.T, text []byte) string {
	t.Helper()
	var b bill
	require.NoError(t, json.Unmarshal(text, &b))
	require.Regexp(t, `^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, b.SerialNumber)
	return b.SerialNumber
}

// TestFunctionIsNamedForItsService: as Lambda's, not for the system that it is built for.
func TestFunctionIsNamedForItsService(t *testing.T) {
	function := built()
	function.Path, function.Main.Path = ourModule+"/lambda/cmd/aggregator", ourModule+"/lambda"
	c, err := contentsOf(function)
	require.NoError(t, err)
	assert.Equal(t, "lambda", c.system())
	assert.True(t, c.program.function)

	command, err := contentsOf(built())
	require.NoError(t, err)
	assert.Equal(t, "linux", command.system())
}

func TestWhatIsNotAsPublishedIsNotReleased(t *testing.T) {
	replaced := built()
	replaced.Deps[1].Replace = &debug.Module{Path: "../fork"}
	_, err := contentsOf(replaced)
	assert.ErrorContains(t, err, "replaced by ../fork")

	foreign := built()
	foreign.Path = "example.com/cmd"
	_, err = contentsOf(foreign)
	assert.ErrorContains(t, err, `"example.com/cmd", which is no program that is released`)

	local := built()
	local.Deps[1].Sum = ""
	_, err = contentsOf(local)
	assert.ErrorContains(t, err, "no checksum")

	c, err := contentsOf(built())
	require.NoError(t, err)
	assert.ErrorContains(t, c.connect(nil), "build it from these sources", "sources that lack what the binary has")
	other := listed{ImportPath: "example.com/Lib/v2"}
	other.Module = &struct{ Path, Version, Dir string }{"example.com/Lib/v2", "v2.1.0", "/cache"}
	assert.ErrorContains(t, c.connect([]listed{other}), "v2.1.0", "sources of another version")
}

func TestLicencesAreKnownOrRefused(t *testing.T) {
	dir := t.TempDir()
	_, err := readLicence(dir)
	assert.ErrorContains(t, err, "no licence")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "LICENSE.txt"), []byte("Apache\r\nApache License\n  Version 2.0\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "NOTICE.txt"), []byte("made by somebody\n"), 0o600))
	l, err := readLicence(dir)
	require.NoError(t, err)
	assert.Equal(t, licence{"Apache-2.0", []byte("Apache\nApache License\n  Version 2.0\n\nmade by somebody\n")}, l)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "LICENSE"), []byte("All rights reserved."), 0o600))
	_, err = readLicence(dir)
	assert.ErrorContains(t, err, "phrases")

	own, err := os.ReadFile("../../LICENSE")
	require.NoError(t, err)
	id, err := identify(own)
	require.NoError(t, err)
	assert.Equal(t, "MIT", id)
}

// TestForeignBinaryIsNotPacked: neither what is no program nor a program of another
// module makes a release.
func TestForeignBinaryIsNotPacked(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("no program"), 0o600))
	assert.ErrorContains(t, pack(t.Context(), someRelease, filepath.Join(dir, "notes.txt"), dir), "does not say what it was built from")

	foreign, err := exec.LookPath("go") // a Go program of another module
	require.NoError(t, err)
	assert.Error(t, pack(t.Context(), someRelease, foreign, dir))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing is written")
}

func TestNoticesNameEveryWorkAndSayEachLicenceOnce(t *testing.T) {
	mit := licence{"MIT", []byte("Permission is hereby granted\n")}
	c := &contents{goVersion: "go1.26.0", standard: licence{"BSD-3-Clause", []byte("Neither the name\n")}, parts: map[string]*part{
		"example.com/b": {path: "example.com/b", version: "v1.0.0", licence: mit},
		"example.com/a": {path: "example.com/a", version: "v0.1.0", licence: mit},
		ourModule:       {path: ourModule, licence: mit},
	}}
	line := strings.Repeat("=", 80)
	assert.Equal(t, "This program contains the following works, under the licences below their names.\n\n"+
		line+"\nThe Go standard library 1.26.0\n\nBSD-3-Clause\n\nNeither the name\n\n"+
		line+"\nexample.com/a v0.1.0\nexample.com/b v1.0.0\n\nMIT\n\nPermission is hereby granted\n", string(c.notices()))
}
