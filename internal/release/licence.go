package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// licence is what a module's authors ask of who passes it on.
type licence struct {
	id   string // by SPDX's list
	text []byte // of the licence, and of its notices
}

// licenceFiles are the names under which modules carry their licence, by precedence;
// noticeFiles what Apache's wants to be passed on as well.
var (
	licenceFiles = []string{"LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "COPYING"}
	noticeFiles  = []string{"NOTICE", "NOTICE.txt"}
)

// phrases tell licences apart, the more demanding first: the first whose words are all
// there is it.
var phrases = []struct {
	id    string
	words []string
}{
	{"MPL-2.0", []string{"Mozilla Public License", "2.0"}},
	{"Apache-2.0", []string{"Apache License", "Version 2.0"}},
	{"MIT", []string{"Permission is hereby granted, free of charge"}},
	{"BSD-3-Clause", []string{"Redistribution and use in source and binary forms", "Neither the name"}},
	{"BSD-2-Clause", []string{"Redistribution and use in source and binary forms"}},
	{"ISC", []string{"Permission to use, copy, modify, and/or distribute this software"}},
}

func readLicence(dir string) (licence, error) {
	for _, name := range licenceFiles {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return licence{}, err
		}
		id, err := identify(text)
		if err != nil {
			return licence{}, err
		}
		for _, notice := range noticeFiles {
			more, err := os.ReadFile(filepath.Join(dir, notice))
			if err == nil {
				text = append(append(text, '\n'), more...)
			}
		}
		return licence{id, bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))}, nil
	}
	return licence{}, fmt.Errorf("it has no licence in any of %s", strings.Join(licenceFiles, ", "))
}

func identify(text []byte) (string, error) {
	plain := strings.Join(strings.Fields(string(text)), " ")
	for _, p := range phrases {
		found := 0
		for _, words := range p.words {
			if strings.Contains(plain, words) {
				found++
			}
		}
		if found == len(p.words) {
			return p.id, nil
		}
	}
	return "", errors.New("its licence is none that is known here: read it, and add it to phrases in internal/release/licence.go")
}

// notices is the text that goes with a binary: the licence of everything in it that is
// not of this repository, each text once.
func (c *contents) notices() []byte {
	var order []string
	works := map[string][]string{}
	add := func(name string, l licence) {
		text := l.id + "\n\n" + string(bytes.TrimSpace(l.text))
		if works[text] == nil {
			order = append(order, text)
		}
		works[text] = append(works[text], name)
	}
	add("The Go standard library "+strings.TrimPrefix(c.goVersion, "go"), c.standard)
	for _, p := range c.sorted() {
		if !ours(p.path) {
			add(p.path+" "+p.version, p.licence)
		}
	}
	for _, v := range c.vendored {
		add(v.Name+" "+v.Version, v.licence)
	}
	var b bytes.Buffer
	b.WriteString("This program contains the following works, under the licences below their names.\n")
	for _, text := range order {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(works[text], "\n"), text)
	}
	return b.Bytes()
}
