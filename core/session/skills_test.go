package session

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/fault"
	"github.com/mcprt/mcprt/core/mcptest"
)

// TestSkills: a file of a listed skill is handed out only if it is what was listed.
func TestSkills(t *testing.T) {
	const uri, listed = "skill://pdf/SKILL.md", `{"name":"pdf","description":"Fill","tags":["a",1]}`
	const good = "---\nname: pdf\ntags: [a, 1]\ndescription: Fill\n---\n\nBody.\n"
	bombs := "---\na: &a [x,x]\nb: &b [*a,*a]\n---\n"
	for name, c := range map[string]struct {
		listed, served, members, want string
	}{
		"the same":       {good, good, listed, ""},
		"CRLF":           {strings.ReplaceAll(good, "\n", "\r\n"), strings.ReplaceAll(good, "\n", "\r\n"), listed, ""},
		"another text":   {good, strings.Replace(good, "Body", "Evil", 1), listed, "digest differs"},
		"longer":         {good, good + " ", listed, "size differs"},
		"other members":  {good, good, `{"name":"pdf","description":"Steal"}`, "frontmatter differs"},
		"no frontmatter": {"Body.", "Body.", listed, "no frontmatter"},
		"broken":         {"---\n: [\n---\n", "---\n: [\n---\n", listed, "not YAML"},
		"aliases":        {bombs, bombs, listed, "cannot be compared"},
		"an empty one":   {"---\n---\n", "---\n---\n", listed, "not YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(c.served)
			if err != nil {
				t.Fatal(err)
			}
			script := mcptest.Script{Capabilities: `{"resources":{},"extensions":{"io.modelcontextprotocol/skills":{}}}`, Replies: map[string]string{
				"skills/list": fmt.Sprintf(`{"skills":[{"uri":%q,"frontmatter":%s,"resources":[{"uri":%[1]q,"digest":"sha256:%[3]x","size":%[4]d}]}]}`,
					uri, c.members, sha256.Sum256([]byte(c.listed)), len(c.listed)),
				"resources/read": fmt.Sprintf(`{"contents":[{"uri":%q,"text":%s}]}`, uri, text),
			}}
			bubble(t, script, func(t *testing.T, s *Session, _ *mcptest.Memory, _ *host) {
				read := Call{Method: "resources/read", Params: []byte(`{"uri":"` + uri + `"}`)}
				if r := run(s, read); r.err != nil { // nothing is listed yet
					t.Fatal(r.err)
				}
				if r := run(s, Call{Method: "skills/list"}); r.err != nil {
					t.Fatal(r.err)
				}
				if r := run(s, read); c.want == "" {
					if r.err != nil {
						t.Error(r.err)
					}
				} else {
					wantFault(t, r.err, fault.Protocol, c.want)
				}
				if r := run(s, Call{Method: "resources/read", Params: []byte(`{"uri":"file:///else"}`)}); r.err != nil {
					t.Errorf("another resource: %v", r.err)
				}
			})
		})
	}
}
