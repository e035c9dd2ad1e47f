// Command site writes the documentation as static HTML: the Markdown of the repository, and the help of the
// command line. It checks every link between the pages. No page loads anything from elsewhere. Run it with
// `make site`.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// main makes the site of the repository in -root and writes it to -out. It exits with 1 after an
// error.
func main() {
	root := flag.String("root", "..", "the `folder` of the repository")
	out := flag.String("out", "", "the `folder` to write; what an earlier run left there is replaced")
	flag.Parse()
	s, err := makeSite(os.DirFS(*root))
	if err == nil {
		err = writeFolder(*out, s.files)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stdout, "site: %d pages, every link among them checked; links to elsewhere in %s: %s\n",
		len(s.pages), externalLinks, filepath.Join(*out, "index.html"))
}

// writeFolder replaces folder out by files, named by their paths. It fails if out contains anything but
// an earlier site.
func writeFolder(out string, files map[string][]byte) error {
	if out == "" {
		return errors.New("say where to write with -out; 'make site' does")
	}
	entries, err := os.ReadDir(out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(out, externalLinks)); len(entries) > 0 && err != nil {
		return fmt.Errorf("%s holds something that is no site: name another folder with -out", out)
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	for name, text := range files {
		file := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
