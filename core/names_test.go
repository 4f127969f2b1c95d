package core

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-json"
)

// mintNames names a set of tools from nothing.
func mintNames(ids []toolID, prefix string, maxLength int) map[toolID]string {
	n := newNamer(prefix, maxLength)
	n.update(nil, ids)
	return n.names()
}

func (n *namer) names() map[toolID]string {
	names := make(map[toolID]string, len(n.tools))
	for id := range n.tools {
		names[id] = n.name(id)
	}
	return names
}

// checkNames fails unless the names obey the contract's rules for any input.
func checkNames(t testing.TB, ids []toolID, prefix string, maxLength int) map[toolID]string {
	t.Helper()
	names := mintNames(ids, prefix, maxLength)
	pattern := regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9_-]{1,%d}$`, maxLength))
	owners := map[string]toolID{}
	for _, id := range ids {
		name, ok := names[id]
		if !ok {
			t.Fatalf("%q has no name", id)
		}
		if !pattern.MatchString(name) {
			t.Fatalf("%q is called %q", id, name)
		}
		if other, taken := owners[name]; taken && other != id {
			t.Fatalf("%q and %q are both called %q", other, id, name)
		}
		owners[name] = id
		base, level := naturalName(id, prefix)
		if level > 0 || len(base) > maxLength {
			// Digests get longer only where somebody made two of them equal.
			if want := nameAt(id, base, 1, maxLength); name != want && !contested(ids, want, prefix, maxLength) {
				t.Fatalf("%q is called %q, want %q whoever else is there", id, name, want)
			}
		}
	}
	if len(names) != len(owners) {
		t.Fatalf("%d names for %d tools", len(names), len(owners))
	}
	return names
}

func nameAt(id toolID, base string, level, maxLength int) string {
	m := minter{maxLength: maxLength}
	return m.nameOf(&minted{id: id, base: base, level: level})
}

// contested tells whether two of the tools have this name with a digest of 8 digits.
func contested(ids []toolID, name, prefix string, maxLength int) bool {
	owners := map[toolID]bool{}
	for _, id := range ids {
		base, _ := naturalName(id, prefix)
		if nameAt(id, base, 1, maxLength) == name {
			owners[id] = true
		}
	}
	return len(owners) > 1
}

func digest8(server, tool string) string {
	sum := sha256.Sum256([]byte(server + "\x00" + tool))
	return fmt.Sprintf("_%x", sum[:4])
}

func TestNames(t *testing.T) {
	long := strings.Repeat("n", 53) // mcp_server_ + 53 = 64
	for _, tc := range []struct{ server, tool, want string }{
		{"puppeteer", "puppeteer_screenshot", "mcp_puppeteer_screenshot"},
		{"github", "create_issue", "mcp_github_create_issue"},
		{"a-b", "C-d_e", "mcp_a-b_C-d_e"},
		{"puppeteer", "puppeteer", "mcp_puppeteer_puppeteer"},
		{"puppeteer", "puppeteerx", "mcp_puppeteer_puppeteerx"},
		{"srv", "srv_", "mcp_srv_srv_"},
		{"srv", "srv_srv_x", "mcp_srv_srv_x"},
		{"__proto__", "x", "mcp___proto___x"},
		{"my server", "x", "mcp_my_server_x" + digest8("my server", "x")},
		{"team/alpha", "a//b  c", "mcp_team_alpha_a_b_c" + digest8("team/alpha", "a//b  c")},
		{"数据库", "查询", "mcp____" + digest8("数据库", "查询")},
		{"café", "x", "mcp_caf__x" + digest8("café", "x")},
		{"a", "", "mcp_a_" + digest8("a", "")},
		{"a.b", "a_b_c", "mcp_a_b_c" + digest8("a.b", "a_b_c")},
		{"a", "\xff", "mcp_a__" + digest8("a", "\xff")},
		{"server", long, "mcp_server_" + long},
		{"server", long + "n", "mcp_server_" + long[:44] + digest8("server", long+"n")},
	} {
		id := toolID{tc.server, tc.tool}
		if got := checkNames(t, []toolID{id, id}, "mcp_", 64)[id]; got != tc.want {
			t.Errorf("%q: %q, want %q", id, got, tc.want)
		}
	}
}

func TestNamesFollowTheOptions(t *testing.T) {
	id := toolID{"server", strings.Repeat("x", 40)}
	if got := checkNames(t, []toolID{id}, "", 128)[id]; got != "server_"+id.Tool {
		t.Error(got)
	}
	if got := checkNames(t, []toolID{id}, "p-", minNameLength)[id]; got != "p-server_xxxxxxxxxxxxxx"+digest8(id.Server, id.Tool) {
		t.Error(got)
	}
}

// Two that differ only past the cut, and two that sanitising makes equal, stay apart.
func TestNamesThatLoseTheirDifference(t *testing.T) {
	long := strings.Repeat("t", 60)
	ids := []toolID{{"forty-characters-of-a-server-name-here-ok", long + "a"}, {"forty-characters-of-a-server-name-here-ok", long + "b"}, {"s", "x!"}, {"s", "x?"}, {"s", "x_"}}
	names := checkNames(t, ids, "mcp_", 64)
	if got := names[ids[4]]; got != "mcp_s_x_" {
		t.Errorf("an unchanged name among changed ones: %q", got)
	}
}

func TestClashesGiveAllADigest(t *testing.T) {
	ids := []toolID{{"a", "b_c"}, {"a_b", "c"}, {"a", "d"}}
	want := map[toolID]string{
		ids[0]: "mcp_a_b_c" + digest8("a", "b_c"),
		ids[1]: "mcp_a_b_c" + digest8("a_b", "c"),
		ids[2]: "mcp_a_d",
	}
	if got := checkNames(t, ids, "mcp_", 64); !maps.Equal(got, want) {
		t.Errorf("%q", got)
	}
	// The dropped server prefix clashes too.
	ids = []toolID{{"p", "p_x"}, {"p", "x"}}
	if got := checkNames(t, ids, "mcp_", 64); got[ids[0]] != "mcp_p_x"+digest8("p", "p_x") || got[ids[1]] != "mcp_p_x"+digest8("p", "x") {
		t.Errorf("%q", got)
	}
}

// A server that offers another tool's digested name as its plain one does not get it.
func TestPlainNamesYieldToDigestedOnes(t *testing.T) {
	changed := toolID{"s", "x!"}
	squat := toolID{"s", "x_" + digest8("s", "x!")}
	after := toolID{"s", squat.Tool + digest8("s", squat.Tool)}
	names := checkNames(t, []toolID{after, squat, changed}, "mcp_", 64)
	want := map[toolID]string{
		changed: "mcp_s_x_" + digest8("s", "x!"),
		squat:   "mcp_s_" + squat.Tool + digest8("s", squat.Tool),
		after:   "mcp_s_" + after.Tool + digest8("s", after.Tool),
	}
	if !maps.Equal(names, want) {
		t.Errorf("%q", names)
	}
}

// Equal digests cost a hostile server seconds to find; the names get longer ones. A
// NUL in a server's name makes them equal for nothing.
func TestEqualDigests(t *testing.T) {
	ids := []toolID{{"a\x00b", "c"}, {"a", "b\x00c"}}
	names := checkNames(t, ids, "mcp_", 64)
	for _, id := range ids {
		if !regexp.MustCompile(`^mcp_a_b_c_[0-9a-f]{16}$`).MatchString(names[id]) {
			t.Errorf("%q", names[id])
		}
	}
	// A birthday search among tools whose names all sanitise to "x_".
	junk := strings.NewReplacer("0", "!", "1", "#", "2", "$", "3", "%", "4", "&", "5", "(", "6", ")", "7", "*", "8", "+", "9", ",")
	seen := map[string]string{}
	for i := 0; ; i++ {
		tool := "x" + junk.Replace(fmt.Sprint(i))
		d := digest8("s", tool)
		if other, ok := seen[d]; ok {
			ids = []toolID{{"s", tool}, {"s", other}}
			break
		}
		seen[d] = tool
	}
	names = checkNames(t, ids, "mcp_", 64)
	for _, id := range ids {
		if !regexp.MustCompile(`^mcp_s_x__[0-9a-f]{16}$`).MatchString(names[id]) {
			t.Errorf("%q", names[id])
		}
	}
}

func TestFixtureNames(t *testing.T) {
	data, err := os.ReadFile("testdata/32_names.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ MCPServers map[string]json.RawMessage }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	delete(file.MCPServers, "") // does not load
	if len(file.MCPServers) != 13 {
		t.Fatalf("%d servers", len(file.MCPServers))
	}
	var ids []toolID
	for server := range file.MCPServers {
		for _, tool := range []string{"search", "acme_x", "_x", "x", "b_x", strings.Repeat("long", 20), "日本"} {
			ids = append(ids, toolID{server, tool})
		}
	}
	names := checkNames(t, ids, "mcp_", 64)
	for id, want := range map[toolID]string{
		{"GitHub", "search"}:    "mcp_GitHub_search",
		{"github", "search"}:    "mcp_github_search",
		{"a.b", "search"}:       "mcp_a_b_search" + digest8("a.b", "search"),
		{"a__b", "search"}:      "mcp_a__b_search",
		{"__proto__", "x"}:      "mcp___proto___x",
		{"acme", "acme_x"}:      "mcp_acme_x" + digest8("acme", "acme_x"), // also acme's own x
		{"acme_", "x"}:          "mcp_acme__x" + digest8("acme_", "x"),    // also acme's _x
		{"acme", "_x"}:          "mcp_acme__x" + digest8("acme", "_x"),
		{"🔥", "search"}:         "mcp___search" + digest8("🔥", "search"),
		{"my server", "search"}: "mcp_my_server_search" + digest8("my server", "search"),
	} {
		if names[id] != want {
			t.Errorf("%q: %q, want %q", id, names[id], want)
		}
	}
}

// Sets that clash in many ways, in shuffled order, give the same names.
func TestNamesDependOnTheSetAlone(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	parts := []string{"a", "b", "_", "a_b", "a b", "-", "é", "", "x\x00y", strings.Repeat("q", 30), strings.Repeat("q", 31)}
	for range 300 {
		ids := make([]toolID, 1+rng.IntN(40))
		for i := range ids {
			ids[i] = toolID{parts[rng.IntN(len(parts))], parts[rng.IntN(len(parts))] + parts[rng.IntN(len(parts))]}
		}
		// Squat on names that were minted, on the squatters' names, and so on.
		for range 4 {
			names := mintNames(ids, "mcp_", 40)
			for _, id := range ids[:min(len(ids), 10)] {
				server, rest, _ := strings.Cut(strings.TrimPrefix(names[id], "mcp_"), "_")
				ids = append(ids, toolID{server, rest})
			}
		}
		want := checkNames(t, ids, "mcp_", 40)
		for range 3 {
			rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
			if got := mintNames(ids, "mcp_", 40); !maps.Equal(got, want) {
				t.Fatalf("another order gives other names: %q and %q", got, want)
			}
		}
	}
}

// A namer that saw tools come and go gives the names that one from nothing gives, and
// tells of each other server whose tools it renamed.
func TestNamesDoNotDependOnThePast(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	parts := []string{"a", "b", "_", "a_b", "a b", "é", "", strings.Repeat("q", 31)}
	n, have := newNamer("mcp_", 40), map[toolID]bool{}
	pick := func() toolID {
		return toolID{parts[rng.IntN(len(parts))], parts[rng.IntN(len(parts))] + parts[rng.IntN(len(parts))]}
	}
	unaffected := 0
	for range 3000 {
		before := n.names()
		var gone, come []toolID
		for range rng.IntN(3) {
			if id := pick(); have[id] {
				gone = append(gone, id)
				delete(have, id)
			}
		}
		for range rng.IntN(3) {
			id := pick()
			if rng.IntN(4) == 0 && len(before) > 0 { // a squatter on somebody's name
				for other := range before {
					id.Server, id.Tool, _ = strings.Cut(strings.TrimPrefix(before[other], "mcp_"), "_")
					break
				}
			}
			if !have[id] {
				come = append(come, id)
				have[id] = true
			}
		}
		renamed, all := n.update(gone, come)
		if !all {
			unaffected++
		}
		got, want := n.names(), mintNames(slices.Collect(maps.Keys(have)), "mcp_", 40)
		if !maps.Equal(got, want) {
			t.Fatalf("after %q went and %q came: %q, want %q", gone, come, got, want)
		}
		for id, name := range got {
			if was, there := before[id]; there && was != name && !all && !renamed[id.Server] {
				t.Fatalf("%q was renamed from %q to %q, and update did not say so", id, was, name)
			}
		}
	}
	if unaffected < 300 {
		t.Errorf("only %d changes were cheap", unaffected)
	}
}

// A hostile server lines up tools so that each one's digested name is the next one's
// plain name. Were each link a round over all tools, this would take an hour.
func TestChainOfClashesIsLinear(t *testing.T) {
	const links = 20000
	ids := []toolID{{"s", strings.Repeat("!", 60)}} // changed: has a digest from the start
	for len(ids) < links {
		last := ids[len(ids)-1]
		base, _ := naturalName(last, "mcp_")
		ids = append(ids, toolID{"s", strings.TrimPrefix(nameAt(last, base, 1, 64), "mcp_s_")})
	}
	slices.Reverse(ids)
	names := checkChain(t, ids)
	for i, id := range ids[:links-1] {
		if !strings.HasSuffix(names[id], digest8(id.Server, id.Tool)) {
			t.Fatalf("link %d kept the name %q", i, names[id])
		}
	}
}

// checkChain checks uniqueness only: checkNames is quadratic on such input.
func checkChain(t *testing.T, ids []toolID) map[toolID]string {
	t.Helper()
	names := mintNames(ids, "mcp_", 64)
	distinct := map[string]bool{}
	for _, name := range names {
		distinct[name] = true
	}
	if len(names) != len(ids) || len(distinct) != len(ids) {
		t.Fatalf("%d tools, %d names, %d distinct", len(ids), len(names), len(distinct))
	}
	return names
}

func FuzzNames(f *testing.F) {
	f.Add("puppeteer", "puppeteer_screenshot", "a", "b_c", "a_b", "c", uint8(32))
	f.Add("a\x00b", "c", "a", "b\x00c", "", "", uint8(0))
	f.Add("s", "x!", "s", "x_", "s", "x__"+digest8("s", "x!"), uint8(255))
	f.Fuzz(func(t *testing.T, s1, t1, s2, t2, s3, t3 string, length uint8) {
		maxLength := minNameLength + int(length)%97
		ids := []toolID{{s1, t1}, {s2, t2}, {s3, t3}, {s1, t2}, {s2, t3}, {s3, t1}}
		names := checkNames(t, ids, "mcp_", maxLength)
		server, rest, _ := strings.Cut(strings.TrimPrefix(names[ids[0]], "mcp_"), "_")
		ids = append(ids, toolID{server, rest})
		names = checkNames(t, ids, "mcp_", maxLength)
		slices.Reverse(ids)
		if again := mintNames(ids, "mcp_", maxLength); !maps.Equal(again, names) {
			t.Fatalf("another order gives other names: %q and %q", again, names)
		}
	})
}
