package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// programName is what the command is called in every archive.
const programName = "dynalimit"

// baseName is how the files of a platform begin.
func baseName(id identity, goos, goarch string) string {
	return programName + "_" + id.Version + "_" + goos + "_" + goarch
}

// archiveName is the archive of a platform: zip where people expect one.
func archiveName(id identity, goos, goarch string) string {
	if goos == "windows" {
		return baseName(id, goos, goarch) + ".zip"
	}
	return baseName(id, goos, goarch) + ".tar.gz"
}

// billName is the bill of materials of a platform's binary.
func billName(id identity, goos, goarch string) string {
	return baseName(id, goos, goarch) + ".cdx.json"
}

// pack writes the archive and the bill of materials of a binary into folder out. It runs
// in the folder of the sources.
func pack(ctx context.Context, id identity, binary, out string) error {
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return fmt.Errorf("%s does not say what it was built from: %w", binary, err)
	}
	contents, err := contentsOf(info)
	if err != nil {
		return fmt.Errorf("%s: %w", binary, err)
	}
	if err := contents.find(ctx); err != nil {
		return err
	}
	bill, err := billOfMaterials(id, contents, sha256.Sum256(program))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, billName(id, contents.goos, contents.goarch)), bill, 0o644); err != nil {
		return err
	}
	files, err := archived(contents, filepath.Base(binary), program)
	if err != nil {
		return err
	}
	return writeArchive(filepath.Join(out, archiveName(id, contents.goos, contents.goarch)), id, files)
}

// archived is what an archive holds, in its order.
func archived(c *contents, name string, program []byte) ([]archivedFile, error) {
	files := []archivedFile{{name, program, true}}
	for _, document := range []string{"LICENSE", "README.md"} {
		text, err := os.ReadFile(document)
		if err != nil {
			return nil, err
		}
		files = append(files, archivedFile{document, text, false})
	}
	return append(files, archivedFile{"THIRD_PARTY_LICENSES.txt", c.notices(), false}), nil
}

func writeArchive(path string, id identity, files []archivedFile) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	write := tarGzip
	if strings.HasSuffix(path, ".zip") {
		write = zipped
	}
	folder := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".zip"), ".tar.gz")
	return write(io.Writer(file), folder, id.Time, files)
}
