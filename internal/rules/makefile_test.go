package rules

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// read gives a file by its path from the root.
func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// firsts gives the first group of each match.
func firsts(pattern, text string) []string {
	var out []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// phonyTargets are the targets that a person calls.
func phonyTargets(t *testing.T) []string {
	t.Helper()
	lines := firsts(`(?m)^\.PHONY:(.*)$`, strings.ReplaceAll(read(t, "Makefile"), "\\\n", " "))
	targets := strings.Fields(strings.Join(lines, " "))
	if len(targets) == 0 {
		t.Fatal("the Makefile has no .PHONY line")
	}
	return targets
}

func TestMakeHelpListsEveryTarget(t *testing.T) {
	cmd := exec.Command("make", "--no-print-directory", "--directory", root, "help")
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=", "MAKEOVERRIDES=")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("make help: %v", err)
	}
	listed := firsts(`(?m)^  ([a-z-]+) +\S`, string(out))
	targets := phonyTargets(t)
	slices.Sort(listed)
	slices.Sort(targets)
	if !slices.Equal(listed, targets) {
		t.Errorf("make help lists\n  %v\nthe Makefile has\n  %v", listed, targets)
	}
}

func TestDocumentsNameOnlyTargetsThatExist(t *testing.T) {
	targets := phonyTargets(t)
	for _, document := range []string{"README.md", "CONTRIBUTING.md", ".ci/run"} {
		for _, target := range firsts(`(?m)(?:^|\x60)make ([a-z-]+)`, read(t, document)) {
			if !slices.Contains(targets, target) {
				t.Errorf("%s names `make %s`, which does not exist", document, target)
			}
		}
	}
}
