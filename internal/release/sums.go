package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func sumsName(id identity) string { return programName + "_" + id.Version + "_checksums.txt" }

// writeSums writes the checksum of every file of the folder, as sha256sum does.
func writeSums(id identity, out string) error {
	sums, err := sumsOf(id, out)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, sumsName(id)), sums, 0o644)
}

func sumsOf(id identity, out string) ([]byte, error) {
	entries, err := os.ReadDir(out) // by name
	if err != nil {
		return nil, err
	}
	var sums bytes.Buffer
	for _, entry := range entries {
		if entry.Name() == sumsName(id) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(out, entry.Name()))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(text), entry.Name())
	}
	return sums.Bytes(), nil
}

// verify checks that the folder has the files of the platforms, no others, and that
// the checksums are theirs.
func verify(id identity, platforms []string, out string) error {
	want := []string{sumsName(id)}
	for _, platform := range platforms {
		goos, goarch, _ := strings.Cut(platform, "/")
		want = append(want, archiveName(id, goos, goarch), billName(id, goos, goarch))
	}
	slices.Sort(want)
	entries, err := os.ReadDir(out)
	if err != nil {
		return err
	}
	var have []string
	for _, entry := range entries {
		have = append(have, entry.Name())
	}
	if !slices.Equal(want, have) {
		return fmt.Errorf("the folder has %s; a release of these platforms has %s", strings.Join(have, ", "), strings.Join(want, ", "))
	}
	written, err := os.ReadFile(filepath.Join(out, sumsName(id)))
	if err != nil {
		return err
	}
	sums, err := sumsOf(id, out)
	if err == nil && !bytes.Equal(written, sums) {
		err = errors.New("the checksums are not those of the files: pack them again")
	}
	return err
}
