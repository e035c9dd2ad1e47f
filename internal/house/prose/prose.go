package main

import (
	"bufio"
	"bytes"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// counts are the figures of one folder, without the folders below it.
type counts struct {
	// Sentences have four words or more. Clauses counts those with a clause in the place of a noun. Empty
	// counts those with "is none" or "is no X", and Long those above 25 words.
	Sentences, Clauses, Empty, Long int
	// Functions are the functions outside tests. OneWord counts the ones with a name of one word.
	Functions, OneWord int
}

// folderCounts are the counts of the Go files and of the Markdown files of one folder.
type folderCounts struct{ Go, Markdown counts }

// sentence is a sentence or a function name that a reader should look at.
type sentence struct {
	Path string
	Line int
	Text string
}

var (
	clausePattern   = regexp.MustCompile(`(?i)\b(what|who|whoever|whatever|whose|of which|of whom|by which|that which|those who|those that|the one that|all that)\b`)
	emptyPattern    = regexp.MustCompile(`\b(is|are) none\b|\bis no [a-z]+|\bno such\b`)
	sentenceEnd     = regexp.MustCompile("[.!?] +([A-Z\"(`])")
	commentPattern  = regexp.MustCompile(`^\s*// ?(.*)`)
	markupPattern   = regexp.MustCompile("^\\s*([|#>]|```|    )")
	functionPattern = regexp.MustCompile(`^func (?:\([^)]*\) )?([A-Za-z_]\w*)`)
	capitalsPattern = regexp.MustCompile(`([A-Z])([A-Z][a-z])`)
	wordPattern     = regexp.MustCompile(`[A-Z]?[a-z0-9]+|[A-Z]+`)
)

const longSentence = 25

// skippedFolders hold texts that nobody reads as prose.
var skippedFolders = []string{"testdata", "node_modules", "vendor", "golden"}

// countTree counts the prose of each folder below root: comments and names of Go files without tests, and
// Markdown pages. It also returns the sentences and names to list.
func countTree(root fs.FS) (map[string]folderCounts, []sentence, error) {
	folders := map[string]folderCounts{}
	var found []sentence
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && (strings.HasPrefix(name, ".") || slices.Contains(skippedFolders, name)):
			return fs.SkipDir
		case entry.IsDir(), strings.HasSuffix(name, "_test.go"), name == "CHANGELOG.md":
			return nil
		}
		isGo := strings.HasSuffix(name, ".go")
		if !isGo && !strings.HasSuffix(name, ".md") {
			return nil
		}
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		folder := folders[filepath.Dir(path)]
		into := &folder.Go
		if !isGo {
			into = &folder.Markdown
		}
		hits, err := into.addFile(bytes.NewReader(text), isGo)
		for _, hit := range hits {
			hit.Path = path
			found = append(found, hit)
		}
		folders[filepath.Dir(path)] = folder
		return err
	})
	return folders, found, err
}

// addFile adds the comments and function names of a Go file, or the text of a Markdown file, to c. It returns
// the sentences and names to list.
func (c *counts) addFile(file io.Reader, isGo bool) (found []sentence, err error) {
	var block []string
	begin, number, fenced := 0, 0, false
	flush := func() {
		for _, text := range splitSentences(strings.Join(block, " ")) {
			if c.addSentence(text) {
				found = append(found, sentence{Line: begin, Text: text})
			}
		}
		block = block[:0]
	}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		number++
		line := lines.Text()
		if isGo {
			if match := functionPattern.FindStringSubmatch(line); match != nil && c.addFunction(match[1]) {
				found = append(found, sentence{Line: number, Text: "func " + match[1]})
			}
		} else if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		text, isProse := proseOf(line, isGo, fenced)
		if !isProse {
			flush()
			continue
		}
		if len(block) == 0 {
			begin = number
		}
		block = append(block, text)
	}
	flush()
	return found, lines.Err()
}

// proseOf returns the prose of a line. isProse is false for code, tables, headings and fenced text.
func proseOf(line string, isGo, fenced bool) (text string, isProse bool) {
	if !isGo {
		return strings.Trim(line, " -*"), !fenced && strings.TrimSpace(line) != "" && !markupPattern.MatchString(line)
	}
	match := commentPattern.FindStringSubmatch(line)
	if match == nil || strings.HasPrefix(strings.TrimSpace(line), "//go:") {
		return "", false
	}
	return match[1], true
}

// splitSentences splits a text into sentences and returns those of four words or more.
func splitSentences(text string) (sentences []string) {
	add := func(s string) {
		if s = strings.TrimSpace(s); len(strings.Fields(s)) >= 4 {
			sentences = append(sentences, s)
		}
	}
	for {
		end := sentenceEnd.FindStringSubmatchIndex(text)
		if end == nil {
			add(text)
			return sentences
		}
		add(text[:end[0]+1])
		text = text[end[2]:]
	}
}

// addSentence counts a sentence and its faults. It returns true if the sentence belongs in the list: it has a
// clause in place of a noun, or an empty negation. A long sentence is only counted.
func (c *counts) addSentence(text string) bool {
	c.Sentences++
	clause, empty := clausePattern.MatchString(text), emptyPattern.MatchString(text)
	if clause {
		c.Clauses++
	}
	if empty {
		c.Empty++
	}
	if len(strings.Fields(text)) > longSentence {
		c.Long++
	}
	return clause || empty
}

// addFunction counts a function. It returns true if the name is one word: such a name is listed.
func (c *counts) addFunction(name string) bool {
	c.Functions++
	name = capitalsPattern.ReplaceAllString(name, "${1}_$2") // HTTPServer is two words
	if len(wordPattern.FindAllString(name, -1)) != 1 {
		return false
	}
	c.OneWord++
	return true
}

// addCounts adds the counts of another folder to c.
func (c *counts) addCounts(other counts) {
	c.Sentences += other.Sentences
	c.Clauses += other.Clauses
	c.Empty += other.Empty
	c.Long += other.Long
	c.Functions += other.Functions
	c.OneWord += other.OneWord
}
