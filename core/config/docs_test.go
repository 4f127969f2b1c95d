package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// codeArgument says which argument of a reporting function is the code.
var codeArgument = map[string]int{"add": 1, "spoil": 0, "fail": 0, "warn": 0, "note": 0}

// TestEveryCodeIsDocumented compares docs/config.md with the codes that the
// package can give.
func TestEveryCodeIsDocumented(t *testing.T) {
	var used []string
	literal := func(e ast.Expr) {
		lit, ok := e.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return
		}
		if s, err := strconv.Unquote(lit.Value); err == nil && s != "" {
			used = append(used, s)
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok {
					if i, ok := codeArgument[sel.Sel.Name]; ok && len(n.Args) > i+1 {
						literal(n.Args[i])
					}
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && strings.EqualFold(key.Name, "code") {
					literal(n.Value)
				}
			case *ast.AssignStmt:
				if id, ok := n.Lhs[0].(*ast.Ident); ok && id.Name == "code" {
					literal(n.Rhs[0])
				}
			case *ast.FuncDecl: // checkURL returns its code
				if n.Name.Name == "checkURL" {
					ast.Inspect(n, func(n ast.Node) bool {
						if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) == 3 {
							literal(r.Results[1])
						}
						return true
					})
				}
			}
			return true
		})
	}
	slices.Sort(used)
	used = slices.Compact(used)
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "config.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## Diagnostics")
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(table, -1) {
		documented = append(documented, m[1])
	}
	if !slices.Equal(used, documented) {
		t.Errorf("used:       %v\ndocumented: %v", used, documented)
	}
}
