package rules

import (
	"regexp"
	"testing"
)

// TestWorkflowActionsArePinned: a tag can be moved to other code, a commit cannot.
func TestWorkflowActionsArePinned(t *testing.T) {
	pinned := regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	for _, file := range ours(t, "ci.yml") {
		used := firsts(`(?m)^\s*-? *uses: (.*)$`, read(t, file))
		if len(used) == 0 {
			t.Errorf("%s uses no action", file)
		}
		for _, action := range used {
			if !pinned.MatchString(action) {
				t.Errorf("%s: %q is not pinned to a commit, with its version behind it", file, action)
			}
		}
	}
}
