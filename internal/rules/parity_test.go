package rules

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// tests are the test functions of the project, as "core/session.TestX", and under
// "core/session.TestX/" the words with which strings in them begin: names of subtests.
func tests(t *testing.T) (functions, subtests map[string]bool) {
	functions, subtests = map[string]bool{}, map[string]bool{}
	for _, f := range load(t) {
		if !f.test {
			continue
		}
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(fn.Name.Name, "Test") && !strings.HasPrefix(fn.Name.Name, "Fuzz") {
				continue
			}
			name := f.dir + "." + fn.Name.Name
			functions[name] = true
			ast.Inspect(fn, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					text, _ := strconv.Unquote(lit.Value)
					if word, _, more := strings.Cut(text, " "); more {
						subtests[name+"/"+word] = true
					}
				}
				return true
			})
		}
	}
	return functions, subtests
}

var (
	testName = regexp.MustCompile("`((?:[a-z/]+)\\.(?:Test|Fuzz)\\w*(?:/\\w+)?)`")
	fileTest = regexp.MustCompile("`([\\w/.]+\\.(?:py|js|c))::(\\w+)`")
)

// TestNamedTestsExist: documents that say which test shows a thing name tests that there are.
func TestNamedTestsExist(t *testing.T) {
	functions, subtests := tests(t)
	for _, document := range []string{"docs/parity.md", "docs/security.md", "docs/lifecycle.md", "docs/rough-edges.md"} {
		text, err := os.ReadFile(filepath.Join(root, document))
		if err != nil {
			t.Fatal(err)
		}
		named := 0
		for _, m := range testName.FindAllStringSubmatch(string(text), -1) {
			named++
			if !functions[m[1]] && !subtests[m[1]] {
				t.Errorf("%s names %s, which is no test", document, m[1])
			}
		}
		for _, m := range fileTest.FindAllStringSubmatch(string(text), -1) {
			named++
			source, err := os.ReadFile(filepath.Join(root, m[1]))
			if err != nil || !regexp.MustCompile(`\b`+m[2]+`\b`).Match(source) {
				t.Errorf("%s names %s in %s, which is not there", document, m[2], m[1])
			}
		}
		if named == 0 {
			t.Errorf("%s names no test", document)
		}
		if document != "docs/parity.md" {
			continue
		}
		for _, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| #") && !testName.MatchString(line) && !fileTest.MatchString(line) && !strings.Contains(line, "| – ") {
				t.Errorf("%s: no test, and no reason: %s", document, line)
			}
		}
	}
}
