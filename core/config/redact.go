package config

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/goccy/go-json"

	"github.com/mcprt/mcprt/core/lazy"
)

const (
	mask      = "***"
	minSecret = 4 // shorter values would be found everywhere
)

// secretName matches names of flags, variables and headers whose value is a secret.
var secretName = lazy.Regexp(`(?i)(token|secret|passw(or)?d|passphrase|api[-_]?key|access[-_]?key|private[-_]?key|credentials?|authorization|auth|bearer|\bpat|signature|cookie|assertion|key)(pem)?$`)

// Redact gives a config as it may be shown: values of env and headers, user info
// and query values of URLs, secrets of oauth, and what follows a flag such as
// --token are replaced. Variables are shown unexpanded, except in env and headers.
func Redact(s Server) Server {
	s = s.clone()
	for name := range s.Env {
		s.Env[name] = mask
	}
	for name := range s.Headers {
		s.Headers[name] = mask
	}
	s.URL = redactURL(s.URL)
	s.Proxy = redactURL(s.Proxy)
	s.Args = redactArgs(s.Args)
	if strings.ContainsAny(s.Command, " \t") { // perhaps a whole command line
		s.Command = strings.Join(redactArgs(strings.Split(s.Command, " ")), " ")
	}
	for name, value := range s.OAuth {
		s.OAuth[name] = redactOAuth(name, value)
	}
	for name, value := range s.Host {
		s.Host[name] = redactOAuth(name, value)
	}
	return s
}

func redactOAuth(name string, value any) any {
	switch v := value.(type) {
	case string:
		if secretName().MatchString(name) {
			return mask
		}
		if strings.Contains(v, "://") {
			return redactURL(v)
		}
	case map[string]any:
		v = maps.Clone(v)
		for inner := range v {
			v[inner] = redactOAuth(inner, v[inner])
		}
		return v
	case []any:
		v = slices.Clone(v)
		for i := range v {
			v[i] = redactOAuth(name, v[i])
		}
		return v
	}
	return value
}

// redactURL works on the text, because a URL with variables in it does not parse.
func redactURL(s string) string {
	before, rest, ok := strings.Cut(s, "://")
	if !ok {
		return redactQuery(s)
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	// The last @ ends the user info; a password may hold / or ? unescaped, so an
	// @ behind them hides all that is before it.
	if at := strings.LastIndexByte(rest, '@'); at >= 0 && (at < end || strings.Contains(rest[:end], ":") && !hostPort().MatchString(rest[:end])) {
		rest = mask + rest[at:]
	}
	return before + "://" + redactQuery(rest)
}

var hostPort = lazy.Regexp(`^(\[[^\]]*\]|[^:\[\]]*)(:\d*)?$`)

func redactQuery(s string) string {
	i := strings.IndexByte(s, '?')
	if i < 0 {
		if i = strings.IndexByte(s, '#'); i < 0 || !strings.Contains(s[i:], "=") {
			return s
		}
	}
	return s[:i+1] + queryValue().ReplaceAllString(s[i+1:], "$1="+mask)
}

var queryValue = lazy.Regexp(`([^=&#;]+)=[^&#]*`)

var flagName = lazy.Regexp(`^--?[A-Za-z][\w.-]*$`)

// redactArgs masks the values of secret-like flags, NAME=value, "Name: value"
// and URLs.
func redactArgs(args []string) []string {
	out := slices.Clone(args)
	for i := range out {
		out[i], _ = splitSecret(args, i)
	}
	return out
}

func argSecrets(args []string) (secrets []string) {
	for i := range args {
		if _, found := splitSecret(args, i); len(found) > 0 {
			secrets = append(secrets, found...)
		}
	}
	return secrets
}

var assignment = lazy.Regexp(`(?s)^(-{0,2}[A-Za-z][\w.-]*)(=|:\s*)(.+)$`)

// splitSecret gives argument i as it may be shown, and the secrets in it.
func splitSecret(args []string, i int) (shown string, secrets []string) {
	arg := args[i]
	if i > 0 && flagName().MatchString(args[i-1]) && secretName().MatchString(args[i-1]) && !flagName().MatchString(arg) {
		return mask, []string{arg}
	}
	if strings.Contains(arg, "://") {
		if masked := redactURL(arg); masked != arg {
			return masked, append(urlSecrets(arg), assignedSecrets(arg)...)
		}
	}
	if m := assignment().FindStringSubmatch(arg); m != nil && secretName().MatchString(m[1]) {
		return m[1] + m[2] + mask, assignedSecrets(arg)
	}
	return arg, nil
}

func assignedSecrets(arg string) []string {
	m := assignment().FindStringSubmatch(arg)
	if m == nil || !secretName().MatchString(m[1]) {
		return nil
	}
	secrets := []string{m[3]}
	if _, credential, ok := strings.Cut(m[3], " "); ok {
		secrets = append(secrets, credential)
	}
	return secrets
}

// urlSecrets lists user info and query values of a URL, escaped and plain.
func urlSecrets(s string) (secrets []string) {
	_, rest, _ := strings.Cut(s, "://")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, password, ok := strings.Cut(rest[:at], ":")
		if !ok {
			password = user
		}
		secrets = append(secrets, password)
	}
	if _, query, ok := strings.Cut(s, "?"); ok {
		for _, m := range queryPair().FindAllStringSubmatch(query, -1) {
			secrets = append(secrets, m[1])
		}
	}
	for _, secret := range slices.Clone(secrets) {
		if plain, err := url.QueryUnescape(secret); err == nil && plain != secret {
			secrets = append(secrets, plain)
		}
	}
	return secrets
}

var queryPair = lazy.Regexp(`=([^&#]*)`)

// Redactor removes a server's secrets from messages. It is safe for concurrent
// use.
type Redactor struct{ replacer *strings.Replacer }

// NewRedactor makes a Redactor for Resolved.Secrets. Values of fewer than 4
// characters are left alone; of overlapping ones the longest is replaced.
func NewRedactor(secrets []string) *Redactor {
	var forms []string
	for _, s := range secrets {
		if len(s) < minSecret {
			continue
		}
		forms = append(forms, s)
		for _, form := range jsonForms(s) {
			forms = append(forms, form)
			forms = append(forms, jsonForms(form)...) // in JSON that is a text of JSON, as tools return it
		}
		forms = append(forms, url.QueryEscape(s), url.PathEscape(s))
	}
	slices.Sort(forms)
	forms = slices.Compact(forms)
	slices.SortStableFunc(forms, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, mask)
	}
	return &Redactor{strings.NewReplacer(pairs...)}
}

// Redact returns text with every secret replaced by ***.
func (r *Redactor) Redact(text string) string {
	if r == nil {
		return text
	}
	return r.replacer.Replace(text)
}

// jsonForms gives a value as the JSON encoders of the languages that servers are
// written in show it: with and without HTML's characters escaped (Go), in ASCII
// (Python), with escaped slashes (PHP).
func jsonForms(s string) (forms []string) {
	for _, html := range []bool{true, false} {
		var text []byte
		var err error
		if html {
			text, err = json.Marshal(s)
		} else {
			text, err = json.MarshalWithOption(s, json.DisableHTMLEscape())
		}
		if err == nil {
			forms = append(forms, string(text[1:len(text)-1]))
		}
	}
	for _, form := range slices.Clone(forms) {
		forms = append(forms, ascii(form, "%04x"), ascii(form, "%04X"), strings.ReplaceAll(form, "/", `\/`))
		forms = append(forms, strings.ReplaceAll(ascii(form, "%04x"), "/", `\/`))
	}
	return forms
}

// ascii writes what is not ASCII as JSON's escapes, in UTF-16 as JSON wants it.
func ascii(s, digits string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u`+digits, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u`+digits+`\u`+digits, high, low)
		}
	}
	return b.String()
}

var (
	// A member of JSON with a text, perhaps cut off at the end; and the same inside of a text.
	memberText = lazy.Regexp(`"([A-Za-z][\w.-]{0,63})"(\s*:\s*")((?:[^"\\]|\\.)+)`)
	innerText  = lazy.Regexp(`\\"([A-Za-z][\w.-]{0,63})\\+"(\s*:\s*\\+")([^"\\]+)`)
	scheme     = lazy.Regexp(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`)
	// Tokens that their makers made to be found.
	marked = lazy.Regexp(`\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|sk-[A-Za-z0-9_-]{16,}|xox[abeprs]-[A-Za-z0-9-]{10,}|AKIA[A-Z0-9]{16}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)`)
)

// RedactText masks what looks like a secret in text that is JSON or holds some,
// whole or cut off: texts of members such as "token" or "apiKey", credentials of
// Authorization headers, tokens with a maker's prefix. It knows no values: see Redactor.
func RedactText(text string) string {
	for _, member := range []*regexp.Regexp{memberText(), innerText()} {
		text = replaceValue(member, text)
	}
	text = scheme().ReplaceAllString(text, "$1 "+mask)
	return marked().ReplaceAllString(text, mask)
}

func replaceValue(member *regexp.Regexp, text string) string {
	var b strings.Builder
	end := 0
	for _, at := range member.FindAllStringSubmatchIndex(text, -1) {
		// MCP's progressToken is a name, not a secret.
		if name := text[at[2]:at[3]]; name == "progressToken" || !secretName().MatchString(name) {
			continue
		}
		b.WriteString(text[end:at[6]])
		b.WriteString(mask)
		end = at[7]
	}
	b.WriteString(text[end:])
	return b.String()
}
