package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSwitchable: functions of every shape get a twin that is called in their place, and what
// changes anything else is left to a tree of its own.
func TestSwitchable(t *testing.T) {
	const text = `package p

type T[K any] struct{ k K }

const most = 3

func (t *T[K]) get(_ int, more ...int) (K, int) { return t.k, len(more) }

func (T[K]) set() { _ = 1 }

func one[K any](K) int { return 1 }

func two(int, string) { println("two") }
`
	list := []mutant{
		{name: "a/get", old: "len(more)", changed: "0"},
		{name: "a/get-too", old: "len(more)", changed: "most"},
		{name: "a/set", old: "_ = 1", changed: "_ = 2"},
		{name: "a/one", old: "return 1", changed: "return 2"},
		{name: "a/two", old: `println("two")`, changed: ""},
		{name: "a/most", old: "most = 3", changed: "most = 4"},
		{name: "a/shape", old: "two(int, string)", changed: "two(int, int)"},
		{name: "a/broken", old: "println(", changed: "println"},
	}
	switched, pkg, names, err := withSwitches(text, list)
	require.NoError(t, err)
	assert.Equal(t, "p", pkg)
	assert.Equal(t, []string{"a/get", "a/get-too", "a/set", "a/one", "a/two"}, names)
	assert.Contains(t, switched, `switch zzMutant { case "a/get": return t.get_zz0(zzp0_0, more...); case "a/get-too": return t.get_zz1(zzp0_0, more...); }`)
	assert.Contains(t, switched, "return one_zz3[K](zzp0_0)")
	assert.Contains(t, switched, "two_zz4(zzp0_0, zzp1_0); return")
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", switched, 0)
	require.NoError(t, err, switched)
	chooser, err := parser.ParseFile(fset, "z.go", "package p\nvar zzMutant string", 0)
	require.NoError(t, err)
	_, err = new(types.Config).Check("p", fset, []*ast.File{file, chooser}, nil)
	require.NoError(t, err, switched)
	_, _, _, err = withSwitches(text, []mutant{{name: "a/gone", old: "nowhere"}})
	assert.ErrorContains(t, err, "a/gone")
}

// TestPlaceOfAnError is that of the mutant in whose twin it is.
func TestPlaceOfAnError(t *testing.T) {
	found := place.FindSubmatch([]byte("# p\ninternal/p/zzmutant/a/get:6:3: o.x undefined\nok"))
	require.NotNil(t, found)
	assert.Equal(t, []string{"a/get", "o.x undefined"}, []string{string(found[1]), string(found[2])})
	assert.True(t, selection{".", "^TestA$/sub"}.matches([][][]byte{{nil, []byte("TestA/other")}}))
	assert.False(t, selection{".", "^TestA$"}.matches([][][]byte{{nil, []byte("TestAB")}}))
}
