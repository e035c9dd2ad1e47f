package dynalimit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every exported name says what it is, every exported field and method too, and every
// option what it is when it is not set.
func TestExportedNamesAreDocumented(t *testing.T) {
	for _, folder := range []string{".", "aggregator", "aggregator/archive", "aggregator/s3archive", "budget", "budget/budgetclient", "budget/budgethttp", "budget/credentials", "ddbmem", "dynalimittest", "fault", "admin", "grpclimit", "httplimit", "lambda", "llm", "llm/llmhttp", "llm/llmtest", "observe"} {
		seen := 0
		for _, file := range sources(t, folder) {
			for _, d := range file.Decls {
				seen += documented(t, folder, d)
			}
		}
		assert.Greater(t, seen, 5, "%s: exported names", folder)
	}
}

// sources are the files of a folder that ship.
func sources(t *testing.T, folder string) (files []*ast.File) {
	t.Helper()
	entries, err := fs.ReadDir(os.DirFS(folder), ".")
	require.NoError(t, err)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), folder+"/"+e.Name(), nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
	}
	return files
}

// documented checks a declaration, and says how many exported names it has.
func documented(t *testing.T, folder string, d ast.Decl) (names int) {
	t.Helper()
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() || d.Recv != nil && !ast.IsExported(receiver(d)) {
			return 0
		}
		assert.NotNil(t, d.Doc, "%s.%s has no comment: say what it does and how it fails", folder, d.Name)
		return 1
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() {
						names++
						assert.True(t, s.Doc != nil || s.Comment != nil || len(d.Specs) == 1 && d.Doc != nil,
							"%s.%s has no comment: say what it stands for", folder, name)
					}
				}
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					assert.True(t, s.Doc != nil || d.Doc != nil, "%s.%s has no comment: say what it is", folder, s.Name)
					names += 1 + documentedParts(t, folder+"."+s.Name.Name, s.Type)
				}
			}
		}
	}
	return names
}

func receiver(d *ast.FuncDecl) string {
	e := d.Recv.List[0].Type
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	name, _ := e.(*ast.Ident)
	if name == nil {
		return ""
	}
	return name.Name
}

// unset is how a comment speaks of an option that is not set.
var unset = regexp.MustCompile(`(?i)\bdefaults?\b|\b(nil|empty|zero|0|false)\b`)

// documentedParts checks the fields of a struct and the methods of an interface. Those
// of the SDK's client are documented there.
func documentedParts(t *testing.T, name string, e ast.Expr) (parts int) {
	t.Helper()
	var list *ast.FieldList
	switch e := e.(type) {
	case *ast.StructType:
		list = e.Fields
	case *ast.InterfaceType:
		list = e.Methods
	default:
		return 0
	}
	for _, field := range list.List {
		for _, part := range field.Names {
			if !part.IsExported() || ofSDK(field.Type) {
				continue
			}
			parts++
			text := field.Doc.Text() + field.Comment.Text()
			assert.NotEmpty(t, text, "%s.%s has no comment: say what it is, its unit, and what it is by default", name, part)
			if strings.HasSuffix(name, "Options") {
				assert.Regexp(t, unset, text, "%s.%s: say what it is when it is not set", name, part)
			}
		}
	}
	return parts
}

// ofSDK reports whether a method is one of *dynamodb.Client's.
func ofSDK(e ast.Expr) bool {
	method, ok := e.(*ast.FuncType)
	if !ok || len(method.Params.List) < 2 {
		return false
	}
	star, ok := method.Params.List[1].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	input, ok := star.X.(*ast.SelectorExpr)
	return ok && input.X.(*ast.Ident).Name == "dynamodb"
}
