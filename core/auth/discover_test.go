package auth

import (
	"context"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcprt/mcprt/core/fault"
)

// TestFallbacks: each way in which servers publish where to sign in leads there, by
// no more questions than needed.
func TestFallbacks(t *testing.T) {
	prm := func(w *world, path string, issuer string) func(string) (int, any) {
		return func(asked string) (int, any) {
			if asked != path {
				return 404, "no"
			}
			return 200, map[string]any{"resource": w.rs.URL + "/mcp", "authorization_servers": []string{issuer}}
		}
	}
	for _, c := range []struct {
		name string
		set  func(w *world)
		want []string
	}{
		{"named by the challenge", func(w *world) {
			w.challenge = `Bearer resource_metadata="{rs}/.well-known/custom"`
			w.resource = prm(w, "/.well-known/custom", w.as.URL)
		}, []string{"RS GET /.well-known/custom", "AS GET /.well-known/oauth-authorization-server"}},
		{"at the path", func(w *world) { w.challenge = "Bearer" },
			[]string{"RS GET /.well-known/oauth-protected-resource/mcp", "AS GET /.well-known/oauth-authorization-server"}},
		{"no challenge at all", func(w *world) { w.challenge = "" },
			[]string{"RS GET /.well-known/oauth-protected-resource/mcp", "AS GET /.well-known/oauth-authorization-server"}},
		{"at the root", func(w *world) {
			w.challenge = "Bearer"
			w.resource = prm(w, "/.well-known/oauth-protected-resource", w.as.URL)
		}, []string{"RS GET /.well-known/oauth-protected-resource/mcp", "RS GET /.well-known/oauth-protected-resource", "AS GET /.well-known/oauth-authorization-server"}},
		{"the named place is gone", func(w *world) {
			w.challenge = `Bearer resource_metadata="{rs}/.well-known/gone"`
			w.resource = prm(w, "/.well-known/oauth-protected-resource/mcp", w.as.URL)
		}, []string{"RS GET /.well-known/gone", "RS GET /.well-known/oauth-protected-resource/mcp", "AS GET /.well-known/oauth-authorization-server"}},
		{"a page in place of metadata", func(w *world) {
			w.challenge = "Bearer"
			w.resource = func(asked string) (int, any) {
				if asked != "/.well-known/oauth-protected-resource" {
					return 200, "<html>"
				}
				return 200, map[string]any{"resource": w.rs.URL, "authorization_servers": []string{w.as.URL}}
			}
		}, []string{"RS GET /.well-known/oauth-protected-resource/mcp", "RS GET /.well-known/oauth-protected-resource", "AS GET /.well-known/oauth-authorization-server"}},
		{"a redirect within https", func(w *world) {
			w.resource = func(asked string) (int, any) {
				if asked == "/.well-known/oauth-protected-resource/mcp" {
					return 302, w.rs.URL + "/.well-known/moved"
				}
				return 200, map[string]any{"resource": w.rs.URL + "/mcp", "authorization_servers": []string{w.as.URL}}
			}
		}, []string{"RS GET /.well-known/oauth-protected-resource/mcp", "RS GET /.well-known/moved", "AS GET /.well-known/oauth-authorization-server"}},
		{"OpenID Connect", func(w *world) {
			w.meta = func(asked string) (int, any) {
				if asked != "/.well-known/openid-configuration" {
					return 404, ""
				}
				return 200, w.metadata()
			}
		}, []string{"RS GET /.well-known/oauth-protected-resource/mcp", "AS GET /.well-known/oauth-authorization-server", "AS GET /.well-known/openid-configuration"}},
		{"an issuer with a path", func(w *world) {
			w.resource = prm(w, "/.well-known/oauth-protected-resource/mcp", w.as.URL+"/tenant")
			w.change = func(m map[string]any) { m["issuer"] = w.as.URL + "/tenant" }
			w.meta = func(asked string) (int, any) {
				if asked != "/.well-known/oauth-authorization-server/tenant" {
					return 404, ""
				}
				return 200, w.metadata()
			}
		}, []string{"RS GET /.well-known/oauth-protected-resource/mcp", "AS GET /.well-known/oauth-authorization-server/tenant"}},
		{"an issuer with a path, OpenID Connect behind it", func(w *world) {
			w.resource = prm(w, "/.well-known/oauth-protected-resource/mcp", w.as.URL+"/tenant")
			w.change = func(m map[string]any) { m["issuer"] = w.as.URL + "/tenant" }
			w.meta = func(asked string) (int, any) {
				if asked != "/tenant/.well-known/openid-configuration" {
					return 404, ""
				}
				return 200, w.metadata()
			}
		}, []string{"RS GET /.well-known/oauth-protected-resource/mcp", "AS GET /.well-known/oauth-authorization-server/tenant",
			"AS GET /.well-known/openid-configuration/tenant", "AS GET /tenant/.well-known/openid-configuration"}},
		{"the first authorization server is dead", func(w *world) {
			dead := httptest.NewServer(nil)
			dead.Close()
			w.resource = func(string) (int, any) {
				return 200, map[string]any{"resource": w.rs.URL + "/mcp", "authorization_servers": []string{dead.URL, w.as.URL}}
			}
		}, []string{"RS GET /.well-known/oauth-protected-resource/mcp", "AS GET /.well-known/oauth-authorization-server"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.set(w)
			w.mustSignIn(w.credentials(NewMemory()))
			if got := w.wells(); !slices.Equal(got, c.want) {
				t.Errorf("asked %q, want %q", got, c.want)
			}
			if r := w.last().Get("resource"); !strings.HasPrefix(r, w.rs.URL) {
				t.Errorf("the token is for %q", r)
			}
		})
	}
}

// Servers of 2025-03-26 have no resource metadata: all is at their own origin.
func TestLegacyServers(t *testing.T) {
	for _, published := range []bool{true, false} {
		w := newWorld(t)
		w.challenge = "Bearer"
		w.resource = func(string) (int, any) { return 404, "" }
		w.rs.Config.Handler = handlerOf(w, published)
		w.as = w.rs // at one origin
		c := w.credentials(NewMemory())
		w.mustSignIn(c)
		if w.last().Get("resource") != w.rs.URL+"/mcp" || c.View().Issuer != w.rs.URL {
			t.Errorf("published %v: %v, issuer %s", published, w.last(), c.View().Issuer)
		}
	}
}

// TestAttacks: what a server says that would send a token, a code or a person to the
// wrong place ends the sign-in, before anybody is asked or any code is sent.
func TestAttacks(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(w *world)
		want string
		code bool // the person was asked; the code must not be sent
	}{
		{"metadata of another resource", func(w *world) {
			w.resource = func(string) (int, any) {
				return 200, map[string]any{"resource": "https://evil.example/mcp", "authorization_servers": []string{w.as.URL}}
			}
		}, "evil.example", false},
		{"metadata of a sibling path", func(w *world) {
			w.resource = func(string) (int, any) {
				return 200, map[string]any{"resource": w.rs.URL + "/mc", "authorization_servers": []string{w.as.URL}}
			}
		}, "not for its own url", false},
		{"metadata without a resource", func(w *world) {
			w.resource = func(string) (int, any) {
				return 200, map[string]any{"authorization_servers": []string{w.as.URL}}
			}
		}, "not for its own url", false},
		{"an issuer that speaks for another", func(w *world) { w.change = func(m map[string]any) { m["issuer"] = "https://bank.example" } }, "bank.example", false},
		{"an issuer that differs by a slash", func(w *world) { w.change = func(m map[string]any) { m["issuer"] = w.as.URL + "/" } }, "says that it is of", false},
		{"no PKCE", func(w *world) {
			w.change = func(m map[string]any) { delete(m, "code_challenge_methods_supported") }
		}, "PKCE", false},
		{"plain PKCE", func(w *world) {
			w.change = func(m map[string]any) { m["code_challenge_methods_supported"] = []string{"plain"} }
		}, "PKCE", false},
		{"an authorization server by http", func(w *world) {
			w.resource = func(string) (int, any) {
				return 200, map[string]any{"resource": w.rs.URL + "/mcp", "authorization_servers": []string{"http://as.example"}}
			}
		}, "https://", false},
		{"a token endpoint by http", func(w *world) {
			w.change = func(m map[string]any) { m["token_endpoint"] = "http://as.example/token" }
		}, "https://", false},
		{"a program as the page", func(w *world) {
			w.change = func(m map[string]any) { m["authorization_endpoint"] = "file:///bin/sh" }
		}, "authorization endpoint", false},
		{"a script as the page", func(w *world) {
			w.change = func(m map[string]any) { m["authorization_endpoint"] = "javascript:alert(1)" }
		}, "authorization endpoint", false},
		{"a password in an address", func(w *world) {
			w.change = func(m map[string]any) { m["token_endpoint"] = "https://user:pw@as.example/token" }
		}, "user name", false},
		{"metadata that leads to a file", func(w *world) {
			w.resource = func(string) (int, any) { return 302, "file:///etc/passwd" }
		}, "file:///etc/passwd is not used", false},
		{"metadata in circles", func(w *world) {
			w.resource = func(string) (int, any) { return 302, w.rs.URL + "/.well-known/oauth-protected-resource/mcp" }
			w.challenge = "Bearer"
		}, "publishes nothing", false},
		{"huge metadata", func(w *world) {
			w.resource = func(string) (int, any) { return 200, `{"resource":"` + strings.Repeat("x", maxBody) + `"}` }
		}, "larger than", false},
		{"a cloud metadata service", func(w *world) {
			w.challenge = `Bearer resource_metadata="https://169.254.169.254/latest"`
		}, "inside this machine", false},
		{"a wrong iss", func(w *world) { w.iss = func(string) (string, bool) { return "https://evil.example", true } }, "evil.example", true},
		{"an iss that differs by a slash", func(w *world) { w.iss = func(as string) (string, bool) { return as + "/", true } }, "is not used", true},
		{"an empty iss", func(w *world) { w.iss = func(string) (string, bool) { return "", true } }, "is not used", true},
		{"a promised iss that is missing", func(w *world) {
			w.change = func(m map[string]any) { m["authorization_response_iss_parameter_supported"] = true }
		}, "promises", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.set(w)
			asked := 0
			creds := w.credentials(NewMemory())
			err := w.signIn(creds, func(ctx context.Context, p Prompt) (string, error) {
				asked++
				return person(ctx, p)
			})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `server "s"`) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if (asked > 0) != c.code {
				t.Errorf("the person was asked %d times", asked)
			}
			if n := w.asked("AS POST /token"); n != 0 {
				t.Errorf("%d requests for a token", n)
			}
			if creds.View() != nil {
				t.Error("there is a sign-in")
			}
		})
	}
}

// Whoever stalls is given up.
func TestStalledServers(t *testing.T) {
	defer func(d time.Duration) { fetchTimeout = d }(fetchTimeout)
	fetchTimeout = 50 * time.Millisecond
	for name, stall := range map[string]func(*world, chan struct{}){
		"resource metadata": func(w *world, end chan struct{}) {
			w.resource = func(string) (int, any) { <-end; return 404, "" }
		},
		"server metadata": func(w *world, end chan struct{}) {
			w.meta = func(string) (int, any) { <-end; return 404, "" }
		},
		"token": func(w *world, end chan struct{}) {
			w.token = func(url.Values) (int, any) { <-end; return 400, "" }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			end := make(chan struct{})
			stall(w, end)
			err := w.signIn(w.credentials(NewMemory()), person)
			close(end)
			if err == nil || !strings.Contains(err.Error(), "did not answer within") || !fault.From(err).Retryable {
				t.Error(err)
			}
		})
	}
}

// A code that the browser brings for another sign-in is not used.
func TestForeignCallback(t *testing.T) {
	for name, forge := range map[string]func(string, Prompt) string{
		"another state": func(to string, _ Prompt) string { return strings.Replace(to, "state=", "state=X", 1) },
		"no state": func(to string, _ Prompt) string {
			u, _ := url.Parse(to)
			return u.Scheme + "://" + u.Host + u.Path + "?code=" + u.Query().Get("code")
		},
		"another place": func(to string, p Prompt) string {
			return strings.Replace(to, p.RedirectURI, "http://127.0.0.1:1/callback", 1)
		},
		"another path": func(to string, p Prompt) string { return strings.Replace(to, "/callback?", "/callback/x?", 1) },
		"junk":         func(string, Prompt) string { return "hello" },
		"an error": func(_ string, p Prompt) string {
			u, _ := url.Parse(p.URL)
			return p.RedirectURI + "?error=access_denied&error_description=no%0Athanks&state=" + u.Query().Get("state")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			err := w.signIn(w.credentials(NewMemory()), func(ctx context.Context, p Prompt) (string, error) {
				to, err := person(ctx, p)
				return forge(to, p), err
			})
			if !fault.Is(err, fault.NeedsAuth) || strings.Contains(err.Error(), "\n") || w.asked("AS POST /token") != 0 {
				t.Errorf("%v, %d token requests", err, w.asked("AS POST /token"))
			}
		})
	}
}
