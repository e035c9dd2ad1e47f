// Command release packs files into an archive, the same bytes on every machine: neither owners
// nor times are the machine's. scripts/release.sh runs it.
package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// main packs the files of its arguments into an archive. It exits with 2 for missing arguments, and with 1
// after an error.
func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "usage: release ARCHIVE SECONDS FOLDER PROGRAM [FILE…]: FOLDER is what they lie in, . for the root")
		os.Exit(2)
	}
	if err := packFiles(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// member starts a file of an archive; the first is the program, which may be run.
type member func(name string, mode, size int64) (io.Writer, error)

// packFiles writes files into an archive, below folder, with a time in Unix seconds. The first file is
// executable. It replaces an existing archive.
func packFiles(archive, seconds, folder string, files []string) (err error) {
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("%q is no time in seconds: %w", seconds, err)
	}
	out, err := os.Create(archive)
	if err != nil {
		return err
	}
	begin, end := newArchive(archive, out, time.Unix(n, 0).UTC())
	defer func() { err = errors.Join(err, end(), out.Close()) }()
	mode := int64(0o755)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		w, err := begin(path.Join(folder, filepath.Base(file)), mode, int64(len(text)))
		if err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
		mode = 0o644
	}
	return nil
}

// newArchive returns two functions for an archive in out: begin starts a file, and end closes the archive. The
// archive is a zip by its name, else a compressed tar.
func newArchive(archive string, out io.Writer, at time.Time) (begin member, end func() error) {
	if strings.HasSuffix(archive, ".zip") {
		z := zip.NewWriter(out)
		return func(name string, mode, _ int64) (io.Writer, error) {
			header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: at}
			header.SetMode(os.FileMode(mode))
			return z.CreateHeader(header)
		}, z.Close
	}
	compressed := gzip.NewWriter(out)
	t := tar.NewWriter(compressed)
	return func(name string, mode, size int64) (io.Writer, error) {
		return t, t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: mode, ModTime: at, Format: tar.FormatUSTAR})
	}, func() error { return errors.Join(t.Close(), compressed.Close()) }
}
