package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// vendored is a work of others, no module, that a package of ours embeds. The file
// VENDORED.json beside its files says what it is.
type vendored struct {
	Name    string            `json:"name"`
	Version string            `json:"version"`
	PURL    string            `json:"purl"`
	Source  string            `json:"source"`
	Files   map[string]string `json:"files"` // the SHA-256 of each, in hex
	licence licence
}

// findVendored finds the works beside what the packages of this repository embed.
func findVendored(packages []listed) (all []vendored, err error) {
	seen := map[string]bool{}
	for _, p := range packages {
		if p.Module == nil || !ours(p.Module.Path) {
			continue
		}
		for _, file := range p.EmbedFiles {
			dir := filepath.Dir(filepath.Join(p.Dir, file))
			if seen[dir] {
				continue
			}
			seen[dir] = true
			if _, err := os.Stat(filepath.Join(dir, vendoredFile)); errors.Is(err, os.ErrNotExist) {
				continue
			}
			v, err := readVendored(dir)
			if err != nil {
				return nil, fmt.Errorf("what %s embeds cannot be passed on: %w", p.ImportPath, err)
			}
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b vendored) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// vendoredFile says what the files beside it are.
const vendoredFile = "VENDORED.json"

// readVendored reads what a folder says that it holds, and compares its files with it.
func readVendored(dir string) (v vendored, err error) {
	text, err := os.ReadFile(filepath.Join(dir, vendoredFile))
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return v, fmt.Errorf("%s: %w", dir, err)
	}
	if v.Name == "" || v.Version == "" || v.PURL == "" || len(v.Files) == 0 {
		return v, fmt.Errorf("%s: its name, version, purl and files must be said", dir)
	}
	for name, want := range v.Files {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return v, fmt.Errorf("%s: %s is said and cannot be read: %w", v.Name, name, err)
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != want {
			return v, fmt.Errorf("%s: %s is not as it was published: its SHA-256 is %x", v.Name, name, sum)
		}
	}
	v.licence, err = readLicence(dir)
	return v, err
}
