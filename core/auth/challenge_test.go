package auth

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestParseChallenges(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"Bearer"}, "bearer{}"},
		{[]string{`Bearer realm="a", resource_metadata="https://a/b", scope="x y"`}, `bearer{realm=a resource_metadata=https://a/b scope=x y}`},
		{[]string{`Basic realm="a, b", Bearer error="invalid_token",error_description="say \"hi\", ok"`}, `basic{realm=a, b} bearer{error=invalid_token error_description=say "hi", ok}`},
		{[]string{`Negotiate`, `DPoP algs="ES256", error=use_dpop_nonce`}, `negotiate{} dpop{algs=ES256 error=use_dpop_nonce}`},
		{[]string{`Negotiate YII=, Bearer scope=a`}, `negotiate{} bearer{scope=a}`},
		{[]string{`NTLM abc==, Basic realm="x"`}, `ntlm{} basic{realm=x}`},
		{[]string{`Bearer resource_metadata=https://a/b?c=d, scope="s"`}, `bearer{resource_metadata=https://a/b?c=d scope=s}`},
		{[]string{`bearer SCOPE = "a" , scope="b"`}, `bearer{scope=a}`},
		{[]string{`Bearer,Basic realm="x"`}, `bearer{} basic{realm=x}`},
		{[]string{`,, ,Bearer scope="a",,`}, `bearer{scope=a}`},
		{[]string{`"junk", Bearer scope="a"`}, `bearer{scope=a}`},
		{[]string{`Bearer scope="never ends, Basic realm="x"`}, `bearer{scope=never ends, Basic realm=}`},
		{[]string{`Bearer scope="unclosed`}, `bearer{}`},
		{[]string{`Bearer scope="a\`}, `bearer{}`},
		{[]string{`Bearer a=b=c`}, `bearer{a=b=c}`},
	} {
		var got []string
		for _, ch := range ParseChallenges(c.lines) {
			var params []string
			for name, value := range ch.Params {
				params = append(params, name+"="+value)
			}
			slices.Sort(params)
			got = append(got, ch.Scheme+"{"+strings.Join(params, " ")+"}")
		}
		if joined := strings.Join(got, " "); joined != c.want {
			t.Errorf("%q: %s, want %s", c.lines, joined, c.want)
		}
	}
	if n := len(ParseChallenges([]string{strings.Repeat("A, ", 10000)})); n != maxChallenges {
		t.Errorf("%d challenges were kept", n)
	}
}

// FuzzParseChallenges: whatever a server sends, reading ends and stays within bounds.
func FuzzParseChallenges(f *testing.F) {
	for _, s := range []string{`Bearer scope="a b", Basic realm=x`, `Negotiate abc==`, `"`, `a=`, `, =`, "Bearer a=\"\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list := ParseChallenges([]string{s})
		if len(list) > maxChallenges {
			t.Fatal(len(list))
		}
		for _, c := range list {
			if c.Scheme == "" || c.Scheme != strings.ToLower(c.Scheme) || len(c.Params) > maxParams {
				t.Fatal(fmt.Sprint(c))
			}
		}
	})
}

func TestChallengeChoice(t *testing.T) {
	for _, c := range []struct {
		header string
		scope  string
		dpop   bool
	}{
		{`Basic realm="x", Bearer scope="b"`, "b", false},
		{`DPoP scope="d"`, "d", true},
		{`DPoP scope="d", Bearer scope="b"`, "b", false},
	} {
		got, dpop := ours(ParseChallenges([]string{c.header}))
		if got.Params["scope"] != c.scope || dpop != c.dpop {
			t.Errorf("%s: %v %v", c.header, got, dpop)
		}
	}
}

func TestScopes(t *testing.T) {
	if got := splitScopes("  a b\ta \"c\" d\\ é " + strings.Repeat("x", 10)); !slices.Equal(got, []string{"a", "b", "xxxxxxxxxx"}) {
		t.Errorf("%q", got)
	}
	if got := splitScopes(strings.Repeat("x ", maxScopeLen)); got != nil {
		t.Errorf("%d scopes of an endless list", len(got))
	}
	if scopes, ok := InsufficientScope(ParseChallenges([]string{`Bearer error="insufficient_scope", scope="a b"`})); !ok || len(scopes) != 2 {
		t.Error(scopes, ok)
	}
	if _, ok := InsufficientScope(ParseChallenges([]string{`Bearer error="invalid_token", scope="a b"`})); ok {
		t.Error("another error counted as a want of scopes")
	}
}
