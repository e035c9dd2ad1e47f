package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one dangerous change of one file.
type mutant struct {
	name string
	file string
	// breaks is the harm to users.
	breaks string
	// tests are the tests that must fail, each one package and a pattern.
	tests []selection
	// old must be in the file exactly once, and becomes changed.
	old, changed string
	hasOld       bool
}

// selection is some tests of one package.
type selection struct{ pkg, run string }

// readLists reads the mutants of every list (*.txt) in a folder. It fails for a malformed list, and for two
// mutants with one name.
func readLists(dir string) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		list, err := parseList(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, list...)
	}
	names := map[string]bool{}
	for _, m := range all {
		if names[m.name] {
			return nil, fmt.Errorf("two mutants are named %s", m.name)
		}
		names[m.name] = true
	}
	return all, nil
}

// parseList parses one list, in the format of lists/README.md, and validates each mutant. The error names the
// line or the mutant.
func parseList(text string) ([]mutant, error) {
	var list []mutant
	for i, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			list = append(list, mutant{name: line[1 : len(line)-1]})
			continue
		}
		if len(list) == 0 {
			return nil, fmt.Errorf("line %d comes before the first [name]", i+1)
		}
		if err := list[len(list)-1].addLine(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	for i := range list {
		if err := list[i].validate(); err != nil {
			return nil, fmt.Errorf("[%s]: %w", list[i].name, err)
		}
	}
	return list, nil
}

// addLine parses one line of a mutant and sets the field: an old line, a new line, or a key with its value. It
// fails for an unknown key.
func (m *mutant) addLine(line string) error {
	if line == "-" || line == "+" { // an empty line
		line += " "
	}
	if text, ok := strings.CutPrefix(line, "- "); ok {
		m.old, m.hasOld = joinLine(m.old, text, m.hasOld), true
		return nil
	}
	if text, ok := strings.CutPrefix(line, "+ "); ok {
		m.changed = joinLine(m.changed, text, m.changed != "")
		return nil
	}
	key, value, _ := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	switch key {
	case "file":
		m.file = value
	case "breaks":
		m.breaks = value
	case "test":
		pkg, run, ok := strings.Cut(value, " ")
		if !ok {
			return errors.New("a test is a package and a pattern")
		}
		m.tests = append(m.tests, selection{pkg, strings.TrimSpace(run)})
	default:
		return fmt.Errorf("%q is not a key; use file, breaks, test, - and +", key)
	}
	return nil
}

// joinLine returns text with line as a further line. It returns line alone if more is false.
func joinLine(text, line string, more bool) string {
	if !more {
		return line
	}
	return text + "\n" + line
}

// validate returns an error if the mutant lacks file, breaks or test, or if it changes nothing.
func (m *mutant) validate() error {
	switch {
	case m.file == "":
		return errors.New("lacks file")
	case m.breaks == "":
		return errors.New("lacks breaks: what users would lose")
	case len(m.tests) == 0:
		return errors.New("lacks test")
	case !m.hasOld || m.old == m.changed:
		return errors.New("changes nothing")
	}
	return nil
}

// applyTo returns the text of the mutant's file with the change. It returns an error unless the old text occurs
// exactly once.
func (m *mutant) applyTo(text string) (string, error) {
	if n := strings.Count(text, m.old); n != 1 {
		return "", fmt.Errorf("its old text is in %s %d times, not once; write it anew", m.file, n)
	}
	return strings.Replace(text, m.old, m.changed, 1), nil
}

// checkFit returns an error unless the mutant's file in tree has its old text exactly once.
func (m *mutant) checkFit(tree string) error {
	text, err := os.ReadFile(filepath.Join(tree, filepath.FromSlash(m.file)))
	if err == nil {
		_, err = m.applyTo(string(text))
	}
	return err
}

// testsByPackage returns the test patterns of all mutants by package, each once.
func testsByPackage(list []mutant) map[string][]string {
	all := map[string][]string{}
	for _, m := range list {
		for _, s := range m.tests {
			if !slices.Contains(all[s.pkg], s.run) {
				all[s.pkg] = append(all[s.pkg], s.run)
			}
		}
	}
	return all
}
