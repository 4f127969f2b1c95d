package main

import (
	"bufio"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/goccy/go-json"
	"github.com/spf13/cobra"

	"github.com/mcprt/mcprt/core"
)

func loginCommand() *cobra.Command {
	var o clientOptions
	var noBrowser bool
	cmd := &cobra.Command{
		Use:   "login SERVER",
		Short: "Sign in to a remote server",
		Long: `Connect a remote server, and sign in to it where that is needed: the page to do so
opens in the browser, and its address is printed. When the browser runs on another
machine, paste the address where it ends here; it starts with http://127.0.0.1.

The sign-in is kept in the system's keyring, or in a file that only you can read, and
every program that uses mcprt with the same server finds it there.`,
		Example: `  mcprt login github
  mcprt login github --no-browser`,
		Args: oneName("the name of one server"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.browser = "system"
			if noBrowser {
				o.browser = "host"
			}
			p := &prompter{in: cmd.InOrStdin()}
			o.answer = p.ask
			return withSession(cmd, &o, "connecting", func(s *session) error {
				p.s = s
				return login(s, args[0])
			})
		},
	}
	cmd.ValidArgsFunction = completeServers(&o)
	o.register(cmd)
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "only print the address of the page")
	return cmd
}

func logoutCommand() *cobra.Command {
	var o clientOptions
	cmd := &cobra.Command{
		Use:   "logout SERVER",
		Short: "Forget the sign-in to a remote server",
		Long: `Forget the sign-in to a remote server, and tell its authorization server so, which
then takes the tokens back if it can.`,
		Example: `  mcprt logout github`,
		Args:    oneName("the name of one server"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withSession(cmd, &o, "signing out", func(s *session) error { return logout(s, args[0]) })
		},
	}
	cmd.ValidArgsFunction = completeServers(&o)
	o.register(cmd)
	return cmd
}

// prompter shows the page of a sign-in, and takes what is pasted meanwhile.
type prompter struct {
	in io.Reader
	s  *session // set before anything is asked
}

// ask gives the answer to one question of the library; "" leaves it open, so that the
// listener ends it.
func (p *prompter) ask(kind string, request []byte, answer func([]byte)) {
	var r struct {
		Server string `json:"server"`
		Params struct {
			URL         string `json:"url"`
			RedirectURI string `json:"redirectUri"`
		} `json:"params"`
	}
	if kind != "authorization" || json.Unmarshal(request, &r) != nil {
		return
	}
	p.s.spin.end()
	fmt.Fprintf(p.s.stderr, "sign in to %s on this page:\n\n  %s\n\nIf the browser is not on this machine, paste the address where it ends, %s?…\n",
		oneLine(r.Server), oneLine(r.Params.URL), oneLine(r.Params.RedirectURI))
	go func() {
		lines := bufio.NewScanner(io.LimitReader(p.in, 1<<20))
		lines.Buffer(nil, 128<<10)
		for lines.Scan() {
			text := strings.TrimSpace(lines.Text())
			if text == "" {
				continue
			}
			if !endsSignIn(text, r.Params.URL, r.Params.RedirectURI) { // the library would end the sign-in; a person may paste again
				fmt.Fprintf(p.s.stderr, "this is not where the browser ends for this sign-in; paste the whole address, %s?…\n", oneLine(r.Params.RedirectURI))
				continue
			}
			if reply, err := json.Marshal(map[string]any{"result": map[string]any{"callbackUrl": text}}); err == nil {
				answer(reply)
			}
			return
		}
	}()
}

// endsSignIn tells whether a pasted text is the address where the browser ended that was
// sent to page, or what stands behind its "?".
func endsSignIn(text, page, redirectURI string) bool {
	query := text
	if before, after, found := strings.Cut(text, "?"); found && (before == "" || before == redirectURI) {
		query = after
	}
	query, _, _ = strings.Cut(query, "#")
	got, err := url.ParseQuery(query)
	if err != nil || !got.Has("code") && !got.Has("error") {
		return false
	}
	asked, err := url.Parse(page)
	return err == nil && got.Get("state") == asked.Query().Get("state")
}

func login(s *session, name string) error {
	reply, err := s.do(s.ctx, core.VerbCall, map[string]any{"method": "mcprt/auth.login", "params": map[string]any{"server": name}})
	if s.raw(reply) || err != nil {
		return err
	}
	s.spin.end()
	var r struct {
		Result struct {
			SignedIn  bool      `json:"signedIn"`
			Issuer    string    `json:"issuer"`
			Scopes    []string  `json:"scopes"`
			ExpiresAt time.Time `json:"expiresAt"`
		} `json:"result"`
	}
	if err := json.Unmarshal(reply, &r); err != nil {
		return err
	}
	if !r.Result.SignedIn {
		fmt.Fprintf(s.stdout, "%s works without a sign-in\n", oneLine(name))
		return nil
	}
	rights := ""
	if len(r.Result.Scopes) > 0 {
		rights = ", for " + oneLine(strings.Join(r.Result.Scopes, " "))
	}
	fmt.Fprintf(s.stdout, "signed in to %s at %s%s\n", oneLine(name), oneLine(r.Result.Issuer), rights)
	return nil
}

func logout(s *session, name string) error {
	reply, err := s.do(s.ctx, core.VerbCall, map[string]any{"method": "mcprt/auth.logout", "params": map[string]any{"server": name}})
	if s.raw(reply) || err != nil {
		return err
	}
	s.spin.end()
	var r struct {
		Result struct {
			SignedOut bool `json:"signedOut"`
			Revoked   bool `json:"revoked"`
		} `json:"result"`
	}
	if err := json.Unmarshal(reply, &r); err != nil {
		return err
	}
	switch {
	case !r.Result.SignedOut:
		fmt.Fprintf(s.stderr, "there was no sign-in to %s\n", oneLine(name))
	case r.Result.Revoked:
		fmt.Fprintf(s.stdout, "signed out of %s, and its tokens were taken back\n", oneLine(name))
	default:
		fmt.Fprintf(s.stdout, "signed out of %s here; its authorization server has no way to take tokens back, or did not answer\n", oneLine(name))
	}
	return nil
}
