package call

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Calls and lanes pass reasons on as they are. Only the root makes errors of them, so nothing below it looks for
// one in a chain of errors.
func TestReasonsAreNotUnwrapped(t *testing.T) {
	for _, folder := range []string{".", "../lane"} {
		files, err := fs.Glob(os.DirFS(folder), "*.go")
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, filepath.Join(folder, name), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					of, _ := s.X.(*ast.Ident)
					assert.False(t, of != nil && of.Name == "errors" && strings.HasPrefix(s.Sel.Name, "As"),
						"%v: use findReason for a reason, and ddb.Classify for an error of the store", set.Position(s.Pos()))
				}
				return true
			})
		}
	}
}

// A reason is found alone and among joined ones, the main one first.
func TestFindReason(t *testing.T) {
	first, second := &Paused{Entity: "first"}, &Paused{Entity: "second"}
	other := errors.New("another")
	for name, test := range map[string]struct {
		err  error
		want *Paused
	}{
		"none":    {nil, nil},
		"other":   {other, nil},
		"alone":   {first, first},
		"joined":  {joinReasons(other, first), first},
		"main":    {joinReasons(first, second), first},
		"nested":  {joinReasons(joinReasons(other, second), first), second},
		"wrapped": {fmt.Errorf("wrapped: %w", first), nil},
	} {
		got, found := findReason[*Paused](test.err)
		assert.Equal(t, test.want, got, name)
		assert.Equal(t, test.want != nil, found, name)
		assert.Equal(t, found, hasReason[*Paused](test.err), name)
	}
}
