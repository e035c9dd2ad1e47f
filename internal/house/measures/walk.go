package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dynalimit/dynalimit/internal/house/ratchet"
)

// minClosure is the number of lines from which on a closure counts as a function of its own.
const minClosure = 11

// walkCalls runs the program calls with coverage. It returns, for each kind of call, the numbers of functions
// and files that ran and of function calls. It leaves the profiles in the folder keep, unless that is "".
func walkCalls(root string, packages []string, keep string) ([]ratchet.Count, error) {
	dir, err := os.MkdirTemp("", "measures")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a left-over in the temporary folder harms nobody
	if keep == "" {
		keep = dir
	} else if err := os.MkdirAll(keep, 0o755); err != nil {
		return nil, err
	}
	calls := module + "/" + folder + "/calls"
	out := filepath.Join(dir, "calls")
	run := exec.Command("go", "run", "-cover", "-covermode=atomic",
		"-coverpkg="+strings.Join(append(packages, calls), ","), calls, out) // coverage starts in package main
	run.Dir = root
	run.Env = append(os.Environ(), "GOCOVERDIR="+dir) // for the coverage at its end, which nobody reads
	if _, err := runCommand(run); err != nil {
		return nil, err
	}
	kinds, err := os.ReadDir(out)
	if err != nil {
		return nil, err
	}
	sources := &sources{root: root, functions: map[string][]span{}}
	var counts []ratchet.Count
	for _, kind := range kinds {
		profile := filepath.Join(keep, kind.Name()+".txt")
		if _, err := runCommand(exec.Command("go", "tool", "covdata", "textfmt", "-i="+filepath.Join(out, kind.Name()), "-o="+profile)); err != nil {
			return nil, err
		}
		text, err := os.ReadFile(profile)
		if err != nil {
			return nil, err
		}
		c, err := sources.countProfile(string(text))
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(keep, kind.Name()+".functions.txt"), []byte(strings.Join(c.list, "\n")+"\n"), 0o644); err != nil { //nolint:gosec // for people to read
			return nil, err
		}
		counts = append(counts,
			ratchet.Count{Name: kind.Name() + ": functions", N: c.functions},
			ratchet.Count{Name: kind.Name() + ": files", N: c.files},
			ratchet.Count{Name: kind.Name() + ": calls", N: c.calls})
	}
	return counts, nil
}

// place is a line and a column.
type place struct{ line, column int }

// before reports whether p comes before q in the file.
func (p place) before(q place) bool {
	return p.line < q.line || p.line == q.line && p.column < q.column
}

// span is the text of a function, with its name.
type span struct {
	from, to place
	name     string
}

// sources finds the functions of the module's files.
type sources struct {
	root      string
	functions map[string][]span // by file
}

// functionAt returns the innermost function around a place in a file of the module. It parses each file once,
// and fails for a place outside all functions.
func (s *sources) functionAt(file string, at place) (span, error) {
	functions, ok := s.functions[file]
	if !ok {
		text, err := os.ReadFile(filepath.Join(s.root, strings.TrimPrefix(file, module+"/")))
		if err != nil {
			return span{}, err
		}
		functions, err = functionsOf(text)
		if err != nil {
			return span{}, err
		}
		s.functions[file] = functions
	}
	var found span
	for _, f := range functions { // an inner one comes after the outer one
		if !at.before(f.from) && at.before(f.to) {
			found = f
		}
	}
	if found == (span{}) {
		return span{}, fmt.Errorf("%s:%d: no function", file, at.line)
	}
	return found, nil
}

// functionsOf returns the functions of a Go file, outer ones first. A closure within another function counts as
// its own from minClosure lines on.
func functionsOf(text []byte) ([]span, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var functions []span
	for _, decl := range file.Decls {
		outer := token.NoPos // the end of the last function that is within no other
		ast.Inspect(decl, func(n ast.Node) bool {
			name := "closure"
			switch n := n.(type) {
			case *ast.FuncDecl:
				name = strings.TrimPrefix(receiverType(n)+"."+n.Name.Name, ".")
			case *ast.FuncLit:
			default:
				return true
			}
			from, to := files.Position(n.Pos()), files.Position(n.End())
			if n.Pos() >= outer || to.Line-from.Line+1 >= minClosure {
				functions = append(functions, span{place{from.Line, from.Column}, place{to.Line, to.Column}, name})
			}
			outer = max(outer, n.End())
			return true
		})
	}
	return functions, nil
}

// walked is how much ran for one call. The list has a line for each function.
type walked struct {
	functions, files, calls int
	list                    []string
}

// countProfile returns the functions that ran by a coverage profile of go test, with their number, their files
// and their calls. A function counts as called as often as its first block ran.
func (s *sources) countProfile(profile string) (walked, error) {
	type key struct {
		file string
		span
	}
	type run struct {
		first place
		calls int
		ran   bool
	}
	runs := map[key]run{}
	for line := range strings.Lines(profile) {
		colon := strings.LastIndexByte(line, ':')
		var from, to place
		var statements, times int
		_, err := fmt.Sscanf(line[colon+1:], "%d.%d,%d.%d %d %d", &from.line, &from.column, &to.line, &to.column, &statements, &times)
		file := line[:max(colon, 0)]
		if err != nil || strings.HasPrefix(file, module+"/"+folder) {
			continue // the line of the mode, and the program that makes the calls
		}
		span, err := s.functionAt(file, from)
		if err != nil {
			return walked{}, err
		}
		r, known := runs[key{file, span}]
		if !known || from.before(r.first) {
			r.first, r.calls = from, times
		}
		r.ran = r.ran || times > 0
		runs[key{file, span}] = r
	}
	var sum walked
	files := map[string]bool{}
	for k, r := range runs {
		if r.ran {
			sum.functions++
			sum.list = append(sum.list, fmt.Sprintf("%s:%d %s %d", strings.TrimPrefix(k.file, module+"/"), k.from.line, k.name, r.calls))
			sum.calls += r.calls
			files[k.file] = true
		}
	}
	sum.files = len(files)
	slices.Sort(sum.list)
	return sum, nil
}
