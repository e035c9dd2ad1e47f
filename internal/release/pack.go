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

// archiveName is the archive of a platform: zip where people, or Lambda, expect one.
func archiveName(id identity, goos, goarch string) string {
	if goos == "windows" || goos == functionSystem {
		return baseName(id, goos, goarch) + ".zip"
	}
	return baseName(id, goos, goarch) + ".tar.gz"
}

// billName is the bill of materials of a platform's binary.
func billName(id identity, goos, goarch string) string {
	return baseName(id, goos, goarch) + ".cdx.json"
}

// noticesName is the file with the licences of what a binary holds.
const noticesName = "THIRD_PARTY_LICENSES.txt"

// unpack reads a binary, and finds what it holds among the sources, in whose folder this
// runs.
func unpack(ctx context.Context, binary string) (program []byte, c *contents, err error) {
	if program, err = os.ReadFile(binary); err != nil {
		return nil, nil, err
	}
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return nil, nil, fmt.Errorf("%s does not say what it was built from: %w", binary, err)
	}
	if c, err = contentsOf(info); err == nil {
		err = c.find(ctx)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", binary, err)
	}
	return program, c, nil
}

// pack writes the archive and the bill of materials of a binary into folder out.
func pack(ctx context.Context, id identity, binary, out string) error {
	program, c, err := unpack(ctx, binary)
	if err != nil {
		return err
	}
	bill, err := billOfMaterials(id, c, sha256.Sum256(program))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, billName(id, c.system(), c.goarch)), bill, 0o644); err != nil {
		return err
	}
	files, err := archived(c, filepath.Base(binary), program)
	if err != nil {
		return err
	}
	path, folder := filepath.Join(out, archiveName(id, c.system(), c.goarch)), baseName(id, c.system(), c.goarch)
	if c.program.function {
		folder = "" // Lambda looks for the program at the root
	}
	return writeArchive(path, folder, id, files)
}

// writeNotices writes the licences of what a binary holds into folder out.
func writeNotices(ctx context.Context, binary, out string) error {
	_, c, err := unpack(ctx, binary)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, noticesName), c.notices(), 0o644)
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
	return append(files, archivedFile{noticesName, c.notices(), false}), nil
}

func writeArchive(path, folder string, id identity, files []archivedFile) (err error) {
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
	return write(io.Writer(file), folder, id.Time, files)
}
