package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
)

const (
	ourModule = "github.com/dynalimit/dynalimit"
	ourStamp  = ourModule + "/cmd/dynalimit"
)

// part is a module that a binary holds.
type part struct {
	path    string
	version string // as the binary says; empty for the modules of this repository
	sum     string // h1:..., as go.sum has it; empty for the modules of this repository
	dir     string // where its sources are
	licence licence
	needs   []string // paths of the modules it imports from
}

// contents is what a binary says that it holds.
type contents struct {
	goos, goarch string
	goVersion    string // such as go1.26.0
	main         string // path of the main module
	path         string // path of the main package
	program      program
	parts        map[string]*part
	vendored     []vendored
	standard     licence
}

// contentsOf reads what the go command wrote into the binary, which is what was linked,
// whatever a go.mod requires.
func contentsOf(info *debug.BuildInfo) (*contents, error) {
	c := &contents{goVersion: info.GoVersion, main: info.Main.Path, path: info.Path, parts: map[string]*part{}}
	var err error
	if c.program, err = programOf(info.Path); err != nil {
		return nil, err
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS":
			c.goos = s.Value
		case "GOARCH":
			c.goarch = s.Value
		}
	}
	if c.goos == "" || c.goarch == "" || c.main == "" {
		return nil, errors.New("it says neither its platform nor its module: build it with scripts/release.sh")
	}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Replace != nil {
			return nil, fmt.Errorf("%s is replaced by %s: a release has no replacements", m.Path, m.Replace.Path)
		}
		p := &part{path: m.Path, version: m.Version, sum: m.Sum}
		if ours(m.Path) {
			p.version, p.sum = "", ""
		} else if m.Sum == "" {
			return nil, fmt.Errorf("%s has no checksum: a release is built from modules as they were published", m.Path)
		}
		c.parts[m.Path] = p
	}
	return c, nil
}

// ours reports whether a module is one of this repository, which are released together.
func ours(path string) bool { return path == ourModule || strings.HasPrefix(path, ourModule+"/") }

// listed is a package as `go list -json` shows it.
type listed struct {
	ImportPath string
	Imports    []string
	Module     *struct{ Path, Version, Dir string }
	Dir        string
	EmbedFiles []string
}

// find completes the parts with where they are, their licences and who needs whom.
func (c *contents) find(ctx context.Context) error {
	list := exec.CommandContext(ctx, "go", "list", "-deps", "-json=ImportPath,Imports,Module,Dir,EmbedFiles", c.path)
	list.Env = append(os.Environ(), "GOOS="+c.goos, "GOARCH="+c.goarch)
	list.Stderr = os.Stderr
	text, err := list.Output()
	if err != nil {
		return fmt.Errorf("list what it is made of: %w", err)
	}
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("find Go's own sources: %w", err)
	}
	packages, err := decode(text)
	if err != nil {
		return err
	}
	if err := c.connect(packages); err != nil {
		return err
	}
	if c.vendored, err = findVendored(packages); err != nil {
		return err
	}
	if c.standard, err = readLicence(strings.TrimSpace(string(root))); err != nil {
		return err
	}
	for _, p := range c.sorted() {
		dir := p.dir
		if ours(p.path) {
			dir = "." // one licence for the repository
		}
		if p.licence, err = readLicence(dir); err != nil {
			return fmt.Errorf("%s cannot be passed on: %w", p.path, err)
		}
	}
	return nil
}

func decode(text []byte) (packages []listed, err error) {
	for decoder := json.NewDecoder(strings.NewReader(string(text))); decoder.More(); {
		var p listed
		if err := decoder.Decode(&p); err != nil {
			return nil, fmt.Errorf("read what go list says: %w", err)
		}
		packages = append(packages, p)
	}
	return packages, nil
}

// connect takes folders and needs from a list of packages, which must name the modules
// that the binary does.
func (c *contents) connect(packages []listed) error {
	moduleOf := map[string]string{}
	for _, p := range packages {
		if p.Module == nil {
			continue
		}
		known := c.parts[p.Module.Path]
		if known == nil || !ours(known.path) && known.version != p.Module.Version {
			return fmt.Errorf("the sources need %s %s, which the binary does not hold: build it from these sources", p.Module.Path, p.Module.Version)
		}
		known.dir, moduleOf[p.ImportPath] = p.Module.Dir, p.Module.Path
	}
	needs := needsOf(packages, moduleOf)
	for _, p := range c.parts {
		if p.dir == "" {
			return fmt.Errorf("the binary holds %s, which the sources do not need: build it from these sources", p.path)
		}
		p.needs = slices.Sorted(maps.Keys(needs[p.path]))
	}
	return nil
}

// needsOf is, for each module, the modules that its packages import from.
func needsOf(packages []listed, moduleOf map[string]string) map[string]map[string]bool {
	needs := map[string]map[string]bool{}
	for _, p := range packages {
		from := moduleOf[p.ImportPath]
		for _, imported := range p.Imports {
			to := moduleOf[imported]
			if from == "" || to == "" || to == from {
				continue
			}
			if needs[from] == nil {
				needs[from] = map[string]bool{}
			}
			needs[from][to] = true
		}
	}
	return needs
}

// sorted is the parts by path.
func (c *contents) sorted() []*part {
	return slices.SortedFunc(maps.Values(c.parts), func(a, b *part) int { return cmp.Compare(a.path, b.path) })
}
