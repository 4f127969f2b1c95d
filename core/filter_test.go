package core

import (
	"strings"
	"testing"
	"time"
)

func TestGlobMatch(t *testing.T) {
	for _, tc := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"a", "", false}, {"a", "a", true}, {"a", "A", false}, {"a", "ab", false},
		{"*", "", true}, {"*", "a/b.c", true}, {"**", "x", true}, {"get_*", "get_", true}, {"get_*", "get_x", true}, {"get_*", "forget_x", false},
		{"*_secret", "get_secret", true}, {"*_secret", "get_secrets", false}, {"*a*b*", "xxaxxbxx", true}, {"*a*b*", "xxbxxaxx", false},
		{"a*a", "a", false}, {"a*a", "aa", true}, {"*aab", "aaab", true}, {"a*b*c", "abbbcbc", true},
		{"?", "", false}, {"?", "a", true}, {"?", "é", true}, {"?", "🔥", true}, {"??", "é", false}, {"a?c", "abc", true}, {"?*", "", false}, {"*?", "x", true}, {"*?é", "xé", true},
		{"数?库", "数据库", true}, {"*库", "数据库", true}, {"?", "\xff", true}, {"*é", "\xc3é", true},
		// No other character is special.
		{"[a]", "a", false}, {"[a]", "[a]", true}, {"{a,b}", "a", false}, {"{a,b}", "{a,b}", true}, {`\*`, "*", false}, {`\*`, `\x`, true}, {"[", "[", true}, {"!a", "b", false},
		{"*", "*", true}, {"?", "*", true}, {"a", "?", false},
	} {
		if got := globMatch(tc.pattern, tc.name); got != tc.want {
			t.Errorf("globMatch(%q, %q) = %v", tc.pattern, tc.name, got)
		}
	}
}

func TestAllowed(t *testing.T) {
	for _, tc := range []struct {
		name        string
		allow, deny []string
		want        bool
	}{
		{"x", nil, nil, true}, {"x", []string{}, nil, false}, {"x", []string{"x"}, nil, true}, {"y", []string{"x"}, nil, false},
		{"y", []string{"x", "y"}, nil, true}, {"x", nil, []string{"x"}, false}, {"y", nil, []string{"x"}, true},
		{"get_secret", []string{"get_*"}, []string{"get_secret"}, false}, {"get_x", []string{"get_*"}, []string{"get_secret"}, true},
		{"x", []string{"*"}, []string{"*"}, false}, {"x", nil, []string{}, true}, {"", nil, []string{"?*"}, true}, {"[x", nil, []string{"[*"}, false},
	} {
		if got := allowed(tc.name, tc.allow, tc.deny); got != tc.want {
			t.Errorf("allowed(%q, %q, %q) = %v", tc.name, tc.allow, tc.deny, got)
		}
	}
}

// Patterns that make a backtracking matcher take for ever.
func TestGlobMatchIsNotExponential(t *testing.T) {
	start := time.Now()
	if globMatch(strings.Repeat("*a", 50)+"b", strings.Repeat("a", 10000)) {
		t.Error("matched")
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
}

// slowMatch is the definition, without the shortcut.
func slowMatch(pattern, name []rune) bool {
	switch {
	case len(pattern) == 0:
		return len(name) == 0
	case pattern[0] == '*':
		return slowMatch(pattern[1:], name) || len(name) > 0 && slowMatch(pattern, name[1:])
	}
	return len(name) > 0 && (pattern[0] == '?' || pattern[0] == name[0]) && slowMatch(pattern[1:], name[1:])
}

func FuzzGlobMatch(f *testing.F) {
	f.Add("*a?b*", "xxaébyy")
	f.Add("**?", "")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 12 || len(name) > 16 {
			return
		}
		pattern, name = strings.ToValidUTF8(pattern, "_"), strings.ToValidUTF8(name, "_")
		if got, want := globMatch(pattern, name), slowMatch([]rune(pattern), []rune(name)); got != want {
			t.Fatalf("globMatch(%q, %q) = %v", pattern, name, got)
		}
	})
}
