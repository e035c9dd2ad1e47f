package dynalimit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every exported field and method of an interface says what it is, and every option what it is
// when it is not set. `make lint` looks after other exported names.
func TestExportedFieldsAreDocumented(t *testing.T) {
	for _, folder := range []string{".", "aggregator", "aggregator/archive", "aggregator/s3archive", "keeper/budget", "keeper/budgetclient", "keeper/budgethttp", "keeper/credentials", "keeper/pricefeed", "keeper/secretsmanager", "ddbmem", "dynalimittest", "fault", "admin", "grpclimit", "httplimit", "lambda", "llm", "llm/llmhttp", "llm/llmtest", "observe"} {
		files, err := filepath.Glob(folder + "/*.go")
		require.NoError(t, err)
		seen := 0
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
			require.NoError(t, err)
			for n := range ast.Preorder(file) {
				if s, ok := n.(*ast.TypeSpec); ok && s.Name.IsExported() {
					seen += 1 + documentedParts(t, folder+"."+s.Name.Name, s.Type)
				}
			}
		}
		assert.Positive(t, seen, "%s: exported types", folder)
	}
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
