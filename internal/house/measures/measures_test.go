package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dynalimit/dynalimit/internal/house/ratchet"
)

// TestWalkCountsLongClosures: a closure of eleven lines is a function of its own, one of ten is
// part of the function around it. A function that ran was called as often as its first block ran.
func TestWalkCountsLongClosures(t *testing.T) {
	closure := func(name string, lines int) string {
		return "\t" + name + " := func() {\n" + strings.Repeat("\t\tuse()\n", lines-2) + "\t}\n"
	}
	s := &sources{root: t.TempDir(), functions: map[string][]span{}}
	require.NoError(t, os.WriteFile(filepath.Join(s.root, "a.go"), []byte(
		"package p\n\nfunc outer() {\n"+closure("long", 11)+closure("short", 10)+"}\n\nvar alone = func() {}\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(s.root, "b.go"), []byte("package p\n\nfunc idle() {}\n"), 0o600))

	outer, long, short := module+"/a.go:3.14,4.17 2 ", module+"/a.go:4.17,14.3 9 ", module+"/a.go:15.18,24.3 8 "
	alone, idle := module+"/a.go:27.20,27.21 0 ", module+"/b.go:3.13,3.14 0 "
	for name, test := range map[string]struct {
		profile []string
		want    walked
	}{
		"nothing":            {[]string{outer + "0", long + "0", short + "0", alone + "0", idle + "0"}, walked{}},
		"the function":       {[]string{outer + "3", long + "0", short + "0"}, walked{1, 1, 3, []string{"a.go:3 outer 3"}}},
		"the long closure":   {[]string{outer + "0", long + "2"}, walked{1, 1, 2, []string{"a.go:4 closure 2"}}},
		"both":               {[]string{long + "2", outer + "1"}, walked{2, 1, 3, []string{"a.go:3 outer 1", "a.go:4 closure 2"}}},
		"the short closure":  {[]string{outer + "0", short + "4"}, walked{1, 1, 0, []string{"a.go:3 outer 0"}}},
		"a variable's, idle": {[]string{alone + "1", idle + "5"}, walked{2, 2, 6, []string{"a.go:27 closure 1", "b.go:3 idle 5"}}},
		"the program itself": {[]string{module + "/" + folder + "/calls/main.go:1.1,2.2 1 7"}, walked{}},
	} {
		got, err := s.countProfile("mode: atomic\n" + strings.Join(test.profile, "\n") + "\n")
		require.NoError(t, err, name)
		assert.Equal(t, test.want, got, name)
	}
	_, err := s.countProfile("mode: atomic\n" + module + "/a.go:1.1,1.5 1 1\n")
	assert.ErrorContains(t, err, "a.go:1: no function", "coverage of another source")
}

// TestReachCountsWhoeverKnowsUnexportedNames adds one function after the other that works on a type.
func TestReachCountsWhoeverKnowsUnexportedNames(t *testing.T) {
	dir := t.TempDir()
	text := "package p\n\ntype Lane struct{ a, b, c, D int }\n\ntype turn struct{ lane *Lane }\n\ntype other struct{ *turn }\n"
	for _, step := range []struct {
		why, code string
		want      int
	}{
		{"its own method", "func (l *Lane) one() {}", 1},
		{"a function that takes it and uses its unexported names", "func two(n int, l *Lane) { l.a = n; l.b = n }", 2},
		{"a method of another type that does", "func (other) three(l *Lane) { l.one() }", 3},
		{"a function that uses exported names alone", "func four(l *Lane) { l.D = 1 }", 3},
		{"two uses through a field", "func (t *turn) five() { t.lane.a, t.lane.b = 1, 2 }", 3},
		{"a third one, through a variable, with all methods of the field's type", "func (t *turn) six() { l := t.lane; l.c = 3 }", 5},
		{"a method that is counted already", "func (t *turn) seven(l *Lane) { l.a = 1 }", 6},
	} {
		text += "\n" + step.code + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "p.go"), []byte(text), 0o600))
		p, err := parseFolder(dir)
		require.NoError(t, err)
		sum := 0
		for _, n := range p.countReach()["Lane"] {
			sum += n
		}
		assert.Equal(t, step.want, sum, step.why)
		assert.Empty(t, p.reachCounts("p"), "only types that too many functions know need a figure")
	}
	text += strings.Repeat("\nfunc more(l *Lane) { l.a = 1 }\n", maxReach)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "p.go"), []byte(text), 0o600))
	p, err := parseFolder(dir)
	require.NoError(t, err)
	assert.Equal(t, []ratchet.Count{{Name: "reach of p Lane", N: maxReach + 6, Free: maxReach, Detail: "Lane 1, functions 41, other 1, turn 3"}}, p.reachCounts("p"))
}
