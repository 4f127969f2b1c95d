// Package rules holds tests of how the code is written, where the compiler has
// no opinion: who may import whom, what may be called where.
package rules

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/mcprt/mcprt"

// mayImport lists, for each package of the project, which others its code
// (outside tests) may import. A new package needs a line here.
var mayImport = map[string][]string{
	"core/fault":     {},
	"core/rawjson":   {},
	"core/format":    {"core/rawjson"},
	"core/config":    {"core/lazy"},
	"core/lazy":      {},
	"core/safe":      {"core/fault"},
	"core/store":     {"core/lazy", "core/fault", "core/rawjson", "core/safe"},
	"core/transport": {"core/lazy", "core/config", "core/fault", "core/rawjson", "core/safe"},
	"core/trace":     {"core/transport", "core/fault", "core/rawjson", "core/safe"},
	"core/session":   {"core/lazy", "core/transport", "core/fault", "core/rawjson", "core/safe"},
	"core/auth":      {"core/store", "core/config", "core/fault", "core/rawjson", "core/safe"},
	"core/mcptest":   {"core/transport", "core/fault", "core/safe"},
	"core":           {"core/lazy", "core/auth", "core/config", "core/fault", "core/format", "core/rawjson", "core/safe", "core/session", "core/store", "core/trace", "core/transport"},
	"capi":           {"core", "core/fault", "core/safe"},
}

// below says that any package under a directory follows the rule of the
// directory: commands, examples and tools use the whole of core.
var below = []string{"cmd", "examples", "bench", "internal"}

// mcpgo may be imported by these packages only, so that it can be replaced.
const mcpgo = "github.com/mark3labs/mcp-go"

var mayImportMCPGo = []string{"core/session", "core/transport", "core/auth", "core/mcptest", "cmd"}

// source is one parsed Go file.
type source struct {
	path string // from the root, with slashes
	dir  string
	test bool
	ast  *ast.File
}

func under(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

func underAny(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return under(path, dir) })
}

var fset = token.NewFileSet()

// load parses every Go file of the project.
func load(t *testing.T) []source {
	t.Helper()
	var files []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch d.Name() {
			case ".git", "node_modules", "testdata", "build", "dist", ".venv", "venv":
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != root {
				return filepath.SkipDir // a module of its own: a test server, a rival in a benchmark
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, source{rel, filepath.ToSlash(filepath.Dir(rel)), strings.HasSuffix(rel, "_test.go"), file})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("only %d Go files found: the rules look at the wrong place", len(files))
	}
	return files
}

func imports(f *ast.File) (paths []string) {
	for _, spec := range f.Imports {
		if path, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}

func at(n ast.Node) string {
	p := fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", filepath.ToSlash(strings.TrimPrefix(p.Filename, "../../")), p.Line)
}

func TestImportDirection(t *testing.T) {
	for _, f := range load(t) {
		for _, problem := range importProblems(f) {
			t.Error(problem)
		}
	}
}

func importProblems(f source) (problems []string) {
	allowed, known := mayImport[f.dir]
	for _, path := range imports(f.ast) {
		if path == "C" && under(f.dir, "core") {
			problems = append(problems, f.path+" imports \"C\"; only capi does")
		}
		if under(path, mcpgo) && !f.test && !underAny(f.dir, mayImportMCPGo) {
			problems = append(problems, f.path+" imports mcp-go; only session, transport, auth and commands do")
		}
		target, ours := strings.CutPrefix(path, module+"/")
		if !ours || underAny(f.dir, below) {
			continue
		}
		switch {
		case !known:
			problems = append(problems, fmt.Sprintf("%s: package %s has no rule; add it to mayImport", f.path, f.dir))
		case f.test && (target == "core/mcptest" || target == f.dir):
		case !slices.Contains(allowed, target):
			problems = append(problems, fmt.Sprintf("%s imports %s; %s may import only %v", f.path, target, f.dir, allowed))
		}
	}
	return problems
}

// environment are the calls that ask the process for what open's env says. One
// file may make them.
var environment = map[string]bool{"os.Getenv": true, "os.LookupEnv": true, "os.Environ": true, "os.ExpandEnv": true, "os.UserHomeDir": true,
	"os.UserCacheDir": true, "os.UserConfigDir": true, "os.Getwd": true, "exec.LookPath": true, "user.Current": true, "syscall.Getenv": true, "syscall.Environ": true}

const environmentFile = "core/config/env.go"

// output are the ways to write to what belongs to the host. filepath.Abs asks
// for the current directory and is no output, so it is not here.
var output = map[string]bool{"os.Stdout": true, "os.Stderr": true, "fmt.Print": true, "fmt.Println": true, "fmt.Printf": true}

// silenceFile is where the library turns off the standard logger, by which net/http speaks.
const silenceFile = "capi/main.go"

func TestForbiddenCalls(t *testing.T) {
	for _, f := range load(t) {
		if f.test || !underAny(f.dir, []string{"core", "capi"}) || under(f.dir, "core/mcptest") {
			continue
		}
		for _, problem := range callProblems(f) {
			t.Error(problem)
		}
	}
}

func callProblems(f source) (problems []string) {
	names := map[string]string{} // local name of an imported package → its last path element
	for _, spec := range f.ast.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		last := path[strings.LastIndexByte(path, '/')+1:]
		local := last
		if spec.Name != nil {
			local = spec.Name.Name
		}
		names[local] = last
		if local == "." {
			problems = append(problems, f.path+" imports "+path+" with a dot, which hides calls from these rules")
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			if !ok {
				return true
			}
			name := names[pkg.Name] + "." + n.Sel.Name
			if environment[name] && f.path != environmentFile {
				problems = append(problems, fmt.Sprintf("%s uses %s; the environment is config.Env", at(n), name))
			}
			if names[pkg.Name] == "log" && name != "log.New" && (name != "log.SetOutput" || f.path != silenceFile) {
				problems = append(problems, fmt.Sprintf("%s uses %s, whose logger writes to the host's stderr; records go to the host as events", at(n), name))
			}
			if output[name] {
				problems = append(problems, fmt.Sprintf("%s uses %s, which belongs to the host", at(n), name))
			}
		case *ast.CompositeLit:
			if kind, ok := n.Type.(*ast.SelectorExpr); ok && kind.Sel.Name == "Server" && !hasKey(n, "ErrorLog") {
				if pkg, ok := kind.X.(*ast.Ident); ok && names[pkg.Name] == "http" {
					problems = append(problems, fmt.Sprintf("%s makes an http.Server without an ErrorLog, which then is the host's stderr", at(n)))
				}
			}
		case *ast.CallExpr:
			if name, ok := n.Fun.(*ast.Ident); ok && (name.Name == "print" || name.Name == "println") {
				problems = append(problems, fmt.Sprintf("%s calls %s, which writes to the host's stderr", at(n), name.Name))
			}
		}
		return true
	})
	return problems
}

func hasKey(lit *ast.CompositeLit, name string) bool {
	return slices.ContainsFunc(lit.Elts, func(e ast.Expr) bool {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		key, ok := pair.Key.(*ast.Ident)
		return ok && key.Name == name
	})
}

// TestGoroutinesRecover: a panic in a goroutine that nobody guards ends the
// host's process. A function that is started by go, or given to an errgroup's
// Go, must defer something of its package that recovers, or do nothing but call
// such a guard or safe.Do. All else uses safe.Go.
func TestGoroutinesRecover(t *testing.T) {
	files := load(t)
	recovering := map[string]map[string]bool{}
	for _, f := range files {
		if recovering[f.dir] == nil {
			recovering[f.dir] = map[string]bool{}
		}
	}
	// Twice: a function is also safe that defers one which recovers.
	for range 2 {
		for _, f := range files {
			for _, decl := range f.ast.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if ok && fn.Body != nil && !f.test && (callsRecover(fn.Body) || defersAny(fn.Body, recovering[f.dir])) {
					recovering[f.dir][fn.Name.Name] = true
				}
			}
		}
	}
	for _, f := range files {
		if f.test || !underAny(f.dir, []string{"core", "capi"}) || under(f.dir, "core/mcptest") {
			continue
		}
		for _, problem := range goroutineProblems(f, recovering[f.dir]) {
			t.Error(problem)
		}
	}
}

func goroutineProblems(f source, recovering map[string]bool) (problems []string) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			if !guarded(n.Call.Fun, recovering) {
				problems = append(problems, at(n)+" starts a goroutine without a recover; use safe.Go")
			}
		case *ast.CallExpr:
			sel, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Go" && sel.Sel.Name != "TryGo" || len(n.Args) != 1 {
				return true // safe.Go takes two arguments
			}
			if !guarded(n.Args[0], recovering) {
				problems = append(problems, at(n)+" gives a group a function without a recover")
			}
		}
		return true
	})
	return problems
}

// guarded says whether a panic in fn is caught. recovering holds the functions
// and methods of the package in which recover is called or deferred.
func guarded(fn ast.Expr, recovering map[string]bool) bool {
	lit, ok := fn.(*ast.FuncLit)
	if !ok {
		return recovering[calleeName(fn)]
	}
	only := true // nothing but calls of guards
	for _, statement := range lit.Body.List {
		switch s := statement.(type) {
		case *ast.DeferStmt:
			if inner, ok := s.Call.Fun.(*ast.FuncLit); ok && callsRecover(inner.Body) || recovering[calleeName(s.Call.Fun)] {
				return true
			}
		case *ast.ExprStmt:
			call, ok := s.X.(*ast.CallExpr)
			only = only && ok && (recovering[calleeName(call.Fun)] || isSafeDo(call.Fun))
		case *ast.ReturnStmt:
		default:
			only = false
		}
	}
	return only && len(lit.Body.List) > 0 && !returnsOnly(lit.Body)
}

func isSafeDo(fn ast.Expr) bool {
	sel, ok := fn.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "Do" {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && pkg.Name == "safe"
}

func returnsOnly(body *ast.BlockStmt) bool {
	_, ok := body.List[0].(*ast.ReturnStmt)
	return ok
}

// calleeName is the name of a function or method of this package.
func calleeName(fn ast.Expr) string {
	switch fn := fn.(type) {
	case *ast.Ident:
		return fn.Name
	case *ast.SelectorExpr:
		return fn.Sel.Name
	}
	return ""
}

// callsRecover: recover is called somewhere in body, or safe.Do runs what is in it.
func callsRecover(body *ast.BlockStmt) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return !found
		}
		switch fn := call.Fun.(type) {
		case *ast.Ident:
			found = found || fn.Name == "recover"
		case *ast.SelectorExpr:
			pkg, ok := fn.X.(*ast.Ident)
			found = found || ok && pkg.Name == "safe" && fn.Sel.Name == "Do"
		}
		return !found
	})
	return found
}

// defersAny: one of the function's own statements defers a function in names.
func defersAny(body *ast.BlockStmt, names map[string]bool) bool {
	return slices.ContainsFunc(body.List, func(s ast.Stmt) bool {
		d, ok := s.(*ast.DeferStmt)
		return ok && names[calleeName(d.Call.Fun)]
	})
}

// TestRulesBite shows that each rule finds what it is for.
func TestRulesBite(t *testing.T) {
	for _, c := range []struct {
		path, code string
		want       int
	}{
		{"core/config/x.go", `import "github.com/mcprt/mcprt/core/fault"`, 1},
		{"core/transport/x.go", `import "github.com/mcprt/mcprt/core/fault"`, 0},
		{"core/transport/x.go", `import "github.com/mcprt/mcprt/core"`, 1},
		{"core/transport/x_test.go", `import "github.com/mcprt/mcprt/core/mcptest"`, 0},
		{"core/new/x.go", `import "github.com/mcprt/mcprt/core/fault"`, 1},
		{"cmd/mcprt/x.go", `import "github.com/mcprt/mcprt/core"`, 0},
		{"core/x.go", `import "github.com/mark3labs/mcp-go/mcp"`, 1},
		{"core/session/x.go", `import "github.com/mark3labs/mcp-go/mcp"`, 0},
		{"core/x.go", `import "C"`, 1},
		{"core/x.go", `import "os"; var x = os.Getenv("A")`, 1},
		{"core/x.go", `import xos "os"; var x = xos.UserHomeDir`, 1},
		{"core/config/env.go", `import "os"; var x = os.Environ()`, 0},
		{"core/x.go", `import "os/exec"; var x, y = exec.LookPath("a")`, 1},
		{"core/x.go", `import "fmt"; func f() { fmt.Println() }`, 1},
		{"core/x.go", `import "log"; func f() { log.Print() }`, 1},
		{"core/x.go", `import "log"; func f() { log.SetOutput(nil) }`, 1},
		{"capi/main.go", `import "log"; func f() { log.SetOutput(nil); log.Default() }`, 1},
		{"core/x.go", `import "net/http"; var a = http.Server{}; var b = &http.Server{Addr: ":0"}; var c = http.Server{ErrorLog: nil}`, 2},
		{"core/x.go", `import . "os"; func f() {}`, 1},
		{"core/x.go", `func f() { println() }`, 1},
		{"core/x.go", `import "os"; var x = os.Stderr`, 1},
		{"core/x.go", `func f() { go f() }`, 1},
		{"core/x.go", `func f() { go func() { f() }() }`, 1},
		{"core/x.go", `func f() { go func() { defer func() { recover() }(); f() }() }`, 0},
		{"core/x.go", `func r() { recover() }; func f() { go func() { defer r(); f() }() }`, 0},
		{"core/x.go", `func f() { go r() }`, 0},
		{"core/x.go", `func f() { go func() { x := 1; _ = x; r() }() }`, 1},
		{"core/x.go", `func f() { g.Go(func() error { r(); return nil }) }`, 0},
		{"core/x.go", `func f() { g.Go(func() error { return nil }) }`, 1},
		{"core/x.go", `func f() { g.Go(func() error { defer func() { _ = recover() }(); return nil }) }`, 0},
		{"core/x.go", `func f() { safe.Go(nil, f) }`, 0},
	} {
		parsed, err := parser.ParseFile(fset, c.path, "package x; "+c.code, parser.SkipObjectResolution)
		if err != nil {
			t.Fatalf("%s: %v", c.code, err)
		}
		f := source{c.path, filepath.ToSlash(filepath.Dir(c.path)), strings.HasSuffix(c.path, "_test.go"), parsed}
		problems := append(importProblems(f), callProblems(f)...)
		problems = append(problems, goroutineProblems(f, map[string]bool{"r": true})...)
		if len(problems) != c.want {
			t.Errorf("%s in %s: %q, want %d problems", c.code, c.path, problems, c.want)
		}
	}
}
