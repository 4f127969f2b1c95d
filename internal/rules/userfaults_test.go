package rules

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// userFaults are the kinds of faults that users of MCP clients report, by row.
// docs/rough-edges.md says why B4, and the half of B5 that is about processes, are not among them.
var userFaults = strings.Fields(`A1 A2 A4 A6 A8 A9 A10 A11 A12 A13 A15 B1 B2 B5 B7 C1 C3 C4 C6 C8 C10 C11
	D1 D2 D3 D4 D5 D7 D9 E1 E2 E3 E4 E6 E7 F1 F2 F4`)

var faultRow = regexp.MustCompile(`^([A-F]\d+) \S`)

// TestEveryUserFaultHasATest: `go test ./... -run TestUserFaults/A1` finds each row.
func TestEveryUserFaultHasATest(t *testing.T) {
	have := map[string]bool{}
	for _, f := range load(t) {
		if !f.test {
			continue
		}
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(fn.Name.Name, "TestUserFaults") {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				text, _ := strconv.Unquote(lit.Value)
				if m := faultRow.FindStringSubmatch(text); m != nil {
					have[m[1]] = true
					if !slices.Contains(userFaults, m[1]) {
						t.Errorf("%s names the row %s, which nobody knows", at(lit), m[1])
					}
				}
				return true
			})
		}
	}
	for _, row := range userFaults {
		if !have[row] {
			t.Errorf("no TestUserFaults has the row %s", row)
		}
	}
}
