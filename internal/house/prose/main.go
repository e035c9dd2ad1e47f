// Command prose counts how natural the comments, names and pages of this repository are. It compares the
// counts of each folder with those in figures.txt, which may only fall:
//
//	go run ./internal/house/prose            # compare; exits with 1 if a figure rose
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
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	write := flag.Bool("write", false, "lower the figures to the counts")
	show := flag.String("show", "", "list the sentences and names of this folder to look at")
	flag.Parse()
	if err := run(os.Stdout, *write, *show); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer, write bool, show string) error {
	if show != "" {
		_, found, err := countTree(os.DirFS(show))
		for _, s := range found {
			fmt.Fprintf(out, "%s:%d: %s\n", filepath.Join(show, s.Path), s.Line, s.Text)
		}
		return err
	}
	root, err := repositoryRoot()
	if err != nil {
		return err
	}
	folders, _, err := countTree(os.DirFS(root))
	if err != nil {
		return err
	}
	path := filepath.Join(root, "internal", "house", "prose", "figures.txt")
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	before, err := parseFigures(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	now := figuresOf(folders)
	printTotals(out, folders)
	if risen := risenFigures(before, now); len(risen) > 0 && len(before) > 0 {
		return fmt.Errorf("prose is less plain than it was; 'go run ./internal/house/prose -show DIR' lists the sentences:\n  %s", strings.Join(risen, "\n  "))
	}
	if write {
		return os.WriteFile(path, []byte(formatFigures(now)), 0o644) //nolint:gosec // a source file
	}
	return nil
}

// repositoryRoot returns the folder above the working directory that has the repository's Makefile.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.work")); missing == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.work above the working directory: run it inside the repository")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// figures are the shares of one folder in tenths of a percent, by name.
type figures map[string]int

// figuresOf returns the figures by folder. A folder without a sentence and a function has none.
func figuresOf(folders map[string]folderCounts) map[string]figures {
	all := map[string]figures{}
	for folder, c := range folders {
		f := figures{}
		for _, share := range []struct {
			name     string
			part, of int
		}{
			{"clauses", c.Go.Clauses, c.Go.Sentences},
			{"empty", c.Go.Empty, c.Go.Sentences},
			{"long", c.Go.Long, c.Go.Sentences},
			{"one-word", c.Go.OneWord, c.Go.Functions},
			{"page-clauses", c.Markdown.Clauses, c.Markdown.Sentences},
			{"page-empty", c.Markdown.Empty, c.Markdown.Sentences},
		} {
			if share.part > 1 { // one sentence is no habit
				f[share.name] = (share.part*1000 + share.of - 1) / share.of
			}
		}
		all[folder] = f
	}
	return all
}

// allowance is the share, in tenths of a percent, below which a figure may rise: the bars of the whole
// repository. A small folder passes one of them with its second sentence.
var allowance = figures{"clauses": 30, "empty": 10, "long": 60, "one-word": 460, "page-clauses": 30, "page-empty": 10}

// risenFigures compares figures with those of before. A folder that is new has the allowance.
func risenFigures(before, now map[string]figures) (risen []string) {
	for _, folder := range slices.Sorted(maps.Keys(now)) {
		for _, name := range slices.Sorted(maps.Keys(now[folder])) {
			if is, most := now[folder][name], max(before[folder][name], allowance[name]); is > most {
				risen = append(risen, fmt.Sprintf("%s: %s %.1f %%, was %.1f %%", folder, name, float64(is)/10, float64(most)/10))
			}
		}
	}
	return risen
}

// parseFigures reads the lines of formatFigures.
func parseFigures(text string) (map[string]figures, error) {
	all := map[string]figures{}
	for line := range strings.Lines(text) {
		var folder, name string
		var tenths float64
		if strings.HasPrefix(line, "#") {
			continue
		}
		if _, err := fmt.Sscan(line, &folder, &name, &tenths); err != nil {
			return nil, fmt.Errorf("%q is not FOLDER FIGURE PERCENT: %w", strings.TrimSpace(line), err)
		}
		if all[folder] == nil {
			all[folder] = figures{}
		}
		all[folder][name] = int(tenths*10 + 0.5)
	}
	return all, nil
}

// formatFigures writes a line for each figure above its allowance.
func formatFigures(all map[string]figures) string {
	var b strings.Builder
	b.WriteString("# Percent by folder, where it is above the allowance of every folder. Lower it: go run ./internal/house/prose -write\n")
	for _, folder := range slices.Sorted(maps.Keys(all)) {
		for _, name := range slices.Sorted(maps.Keys(all[folder])) {
			if all[folder][name] > allowance[name] {
				fmt.Fprintf(&b, "%s %s %.1f\n", folder, name, float64(all[folder][name])/10)
			}
		}
	}
	return b.String()
}

// printTotals prints the figures of the whole repository.
func printTotals(out io.Writer, folders map[string]folderCounts) {
	var total folderCounts
	for _, c := range folders {
		total.Go.add(c.Go)
		total.Markdown.add(c.Markdown)
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
