package main

import (
	"archive/tar"
	"archive/zip"
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"path"
	"time"
)

// archivedFile is a file of an archive. Only what is here gets into it: neither the
// owner nor the mode nor the time that a file has on the machine that packs it.
type archivedFile struct {
	name    string
	text    []byte
	program bool // may be run
}

func (f archivedFile) mode() fs.FileMode {
	if f.program {
		return 0o755
	}
	return 0o644
}

// tarGzip writes files below a folder, or at the root where that is empty, all of one time.
func tarGzip(w io.Writer, folder string, at time.Time, files []archivedFile) error {
	compressed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(folder, f.name), Size: int64(len(f.text)), Mode: int64(f.mode()),
			ModTime: at, Format: tar.FormatUSTAR,
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(f.text); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}

// zipped is tarGzip as a zip.
func zipped(w io.Writer, folder string, at time.Time, files []archivedFile) error {
	archive := zip.NewWriter(w)
	archive.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	for _, f := range files {
		header := &zip.FileHeader{Name: path.Join(folder, f.name), Method: zip.Deflate, Modified: at}
		header.SetMode(f.mode())
		part, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := part.Write(f.text); err != nil {
			return err
		}
	}
	return archive.Close()
}
