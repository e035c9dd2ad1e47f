// Command prose counts how natural the comments, names and pages of this repository are. It compares the
// counts of each folder with those in figures.txt, which may only fall:
//
//	go run ./internal/house/prose            # compare; exits with 1 if a share rose
//	go run ./internal/house/prose -write     # lower the figures; refuses to raise one
//	go run ./internal/house/prose -show DIR  # list the sentences and names of DIR to look at
//
// Five peers by the same count (x/time, puddle, pgx, river, restic): 0 to 1.7 % clauses in the place of
// nouns, 17 to 48 % names of one word.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/dynalimit/dynalimit/internal/house/ratchet"
)

// main compares the shares of abstract sentences with the figures, or lowers the figures with
// -write. It exits with 1 after an error.
func main() {
	write := flag.Bool("write", false, "lower the figures to the counts")
	show := flag.String("show", "", "list the sentences and names of this folder to look at")
	flag.Parse()
	if err := checkProse(os.Stdout, *write, *show); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// checkProse counts the comments and pages below the working directory, prints the totals to out, and fails for
// a share above its figure. With write it lowers the figures first. With a folder in show it only lists the
// abstract sentences and names there.
func checkProse(out io.Writer, write bool, show string) error {
	if show != "" {
		_, found, err := countTree(os.DirFS(show))
		for _, s := range found {
			fmt.Fprintf(out, "%s:%d: %s\n", filepath.Join(show, s.Path), s.Line, s.Text)
		}
		return err
	}
	if _, err := os.Stat("go.work"); err != nil {
		return errors.New("no go.work in the working directory: run it in the repository's top folder")
	}
	folders, _, err := countTree(os.DirFS("."))
	if err != nil {
		return err
	}
	printTotals(out, folders)
	file := ratchet.File{Path: filepath.Join("internal", "house", "prose", "figures.txt"), Command: command, Note: note}
	return file.Check(io.Discard, sharesAboveBar(folders), write) // a hundred lines that nobody reads
}

const (
	command = "go run ./internal/house/prose"
	note    = `# Tenths of a percent of the sentences or names of a folder, which may only fall: docs/testing.md says what
# is counted. After a change that lowers them: ` + command + ` -write
# A folder that moves takes its lines with it.
`
)

// bars are the shares, in tenths of a percent, that a folder may have without a figure: those of the whole
// repository.
var bars = []struct {
	name string
	bar  int
	of   func(folderCounts) (part, all int)
}{
	{"clauses", 30, func(c folderCounts) (int, int) { return c.Go.Clauses, c.Go.Sentences }},
	{"empty words", 10, func(c folderCounts) (int, int) { return c.Go.Empty, c.Go.Sentences }},
	{"long sentences", 60, func(c folderCounts) (int, int) { return c.Go.Long, c.Go.Sentences }},
	{"names of one word", 460, func(c folderCounts) (int, int) { return c.Go.OneWord, c.Go.Functions }},
	{"clauses in pages", 30, func(c folderCounts) (int, int) { return c.Markdown.Clauses, c.Markdown.Sentences }},
	{"empty words in pages", 10, func(c folderCounts) (int, int) { return c.Markdown.Empty, c.Markdown.Sentences }},
}

// sharesAboveBar returns the shares of each folder that are above their bar, in tenths of a percent, rounded
// up. One sentence or name alone does not count.
func sharesAboveBar(folders map[string]folderCounts) (counts []ratchet.Count) {
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		for _, b := range bars {
			part, all := b.of(folders[folder])
			if part < 2 || part*1000 <= b.bar*all {
				continue
			}
			counts = append(counts, ratchet.Count{Name: folder + ": " + b.name, N: (part*1000 + all - 1) / all, Free: b.bar})
		}
	}
	return counts
}

// printTotals prints the totals and shares of the whole repository to out.
func printTotals(out io.Writer, folders map[string]folderCounts) {
	var total folderCounts
	for _, c := range folders {
		total.Go.addCounts(c.Go)
		total.Markdown.addCounts(c.Markdown)
	}
	percent := func(part, of int) float64 { return 100 * float64(part) / float64(cmp.Or(of, 1)) }
	for _, row := range []struct {
		name string
		counts
	}{{"Go", total.Go}, {"Markdown", total.Markdown}} {
		fmt.Fprintf(out, "%s: %d sentences; clauses in the place of nouns %.1f %%, none or no X %.1f %%, above %d words %.1f %%\n", row.name, row.Sentences,
			percent(row.Clauses, row.Sentences), percent(row.Empty, row.Sentences), longSentence, percent(row.Long, row.Sentences))
	}
	fmt.Fprintf(out, "%d functions, %.0f %% named by one word\n", total.Go.Functions, percent(total.Go.OneWord, total.Go.Functions))
}
