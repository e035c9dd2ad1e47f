package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// embedding are the packages of a repository, one of which embeds what is in folder dir.
func embedding(dir string) []listed {
	of := func(path, folder string, files ...string) listed {
		p := listed{ImportPath: path, Dir: folder, EmbedFiles: files}
		p.Module = &struct{ Path, Version, Dir string }{Path: path, Dir: folder}
		return p
	}
	return []listed{
		{ImportPath: "fmt"},
		of("example.com/lib", dir, "charts/charts.js"),
		of(ourModule, dir, "plain.txt"), of(ourStamp, dir, "charts/charts.js", "charts/LICENSE"),
	}
}

func TestEmbeddedWorksArePassedOnWithTheirLicence(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "charts"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:])
	}
	write("plain.txt", "ours")
	script, mit := write("charts/charts.js", "draw()"), write("charts/LICENSE", "Permission is hereby granted, free of charge\n")

	found, err := findVendored(embedding(dir))
	require.NoError(t, err)
	assert.Empty(t, found, "a folder that says nothing is ours")

	say := func(v vendored) {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		write("charts/VENDORED.json", string(text))
	}
	v := vendored{Name: "charts", Version: "1.2.3", PURL: "pkg:npm/charts@1.2.3", Source: "https://example.com/charts", Files: map[string]string{"charts.js": script, "LICENSE": mit}}
	say(v)
	found, err = findVendored(embedding(dir))
	require.NoError(t, err)
	require.Len(t, found, 1, "each once, and of our packages only")
	assert.Equal(t, "MIT", found[0].licence.id)

	c := &contents{goVersion: "go1.26.0", standard: licence{"BSD-3-Clause", []byte("Neither the name\n")}, vendored: found}
	assert.Contains(t, string(c.notices()), "\ncharts 1.2.3\n\nMIT\n\nPermission is hereby granted")
	text, err := billOfMaterials(someRelease, c, [32]byte{})
	require.NoError(t, err)
	assert.Contains(t, string(text), `"purl": "pkg:npm/charts@1.2.3"`)

	write("charts/charts.js", "draw(); steal()")
	_, err = findVendored(embedding(dir))
	assert.ErrorContains(t, err, "not as it was published")
	v.Files["gone.css"] = script
	delete(v.Files, "charts.js")
	say(v)
	_, err = findVendored(embedding(dir))
	assert.ErrorContains(t, err, "gone.css is said and cannot be read")
	say(vendored{Name: "charts"})
	_, err = findVendored(embedding(dir))
	assert.ErrorContains(t, err, "must be said")
}
