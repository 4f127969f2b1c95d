package auth

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Settings are the members of a server config's oauth that say how to sign in.
type Settings struct {
	Grant        string
	ClientID     string
	ClientSecret string
	AuthMethod   string // at the token endpoint; "": by what the server supports
	PrivateKey   string // PEM, for private_key_jwt
	Algorithm    string // of it; "": by the kind of key
	KeyID        string
	Scopes       []string
	RedirectURI  string
	RedirectPort int
	Issuer       string // the only authorization server that may be used
	MetadataURL  string // of the authorization server; "": the server names it
	Resource     *string
	DPoP         *bool // nil: if the server wants it

	Assertion     string // of jwt_bearer: the workload's token
	AssertionFile string

	IDToken          string // of enterprise_managed
	IDTokenFile      string
	IDPClientID      string
	IDPClientSecret  string
	IDPIssuer        string
	IDPTokenEndpoint string
}

func (s *Settings) grant() string {
	if s.Grant == "" {
		return GrantCode
	}
	return s.Grant
}

// texts are the members that are texts, by their names in a config.
func (s *Settings) texts() map[string]*string {
	return map[string]*string{
		"grant": &s.Grant, "clientId": &s.ClientID, "clientSecret": &s.ClientSecret, "tokenEndpointAuthMethod": &s.AuthMethod,
		"privateKeyPem": &s.PrivateKey, "signingAlgorithm": &s.Algorithm, "keyId": &s.KeyID, "redirectUri": &s.RedirectURI,
		"issuer": &s.Issuer, "metadataUrl": &s.MetadataURL, "assertion": &s.Assertion, "assertionFile": &s.AssertionFile,
		"idToken": &s.IDToken, "idTokenFile": &s.IDTokenFile, "idpClientId": &s.IDPClientID, "idpClientSecret": &s.IDPClientSecret,
		"idpIssuer": &s.IDPIssuer, "idpTokenEndpoint": &s.IDPTokenEndpoint,
	}
}

var grants = []string{GrantCode, GrantClient, GrantJWT, GrantEnterprise}

// authMethods are the ways to say who the client is that mcprt has.
var authMethods = []string{"none", "client_secret_basic", "client_secret_post", "private_key_jwt"}

// ParseSettings reads a config's oauth block. The error names the member that is
// wrong, and no value that may be secret.
func ParseSettings(block map[string]any) (s Settings, err error) {
	wrong := func(name, want string) error { return fmt.Errorf("oauth.%s must be %s", name, want) }
	for name, into := range s.texts() {
		if value, ok := block[name]; ok {
			text, isText := value.(string)
			if !isText {
				return s, wrong(name, "a string")
			}
			*into = text
		}
	}
	switch list := block["scopes"].(type) {
	case nil:
	case []string:
		s.Scopes = list
	case []any:
		for _, v := range list {
			text, _ := v.(string)
			s.Scopes = append(s.Scopes, text)
		}
	case string:
		s.Scopes = strings.Fields(list)
	default:
		return s, wrong("scopes", "an array of strings")
	}
	if slices.ContainsFunc(s.Scopes, func(scope string) bool { return !validScope(scope) }) {
		return s, wrong("scopes", "an array of scopes, which have no spaces")
	}
	if value, ok := block["callbackPort"]; ok {
		port, isNumber := wholeNumber(value)
		if !isNumber || port < 0 || port > 65535 {
			return s, wrong("callbackPort", "a port number")
		}
		s.RedirectPort = port
	}
	if value, ok := block["dpop"]; ok {
		on, isBool := value.(bool)
		if !isBool {
			return s, wrong("dpop", "true or false")
		}
		s.DPoP = &on
	}
	switch value := block["resource"].(type) {
	case nil:
	case string:
		s.Resource = &value
	case bool:
		if value {
			return s, wrong("resource", "a string or false")
		}
		s.Resource = new(string)
	default:
		return s, wrong("resource", "a string or false")
	}
	s.Grant = strings.ReplaceAll(s.Grant, "-", "_")
	if !slices.Contains(grants, s.grant()) {
		return s, wrong("grant", "one of "+strings.Join(grants, ", "))
	}
	if s.AuthMethod != "" && !slices.Contains(authMethods, s.AuthMethod) {
		return s, wrong("tokenEndpointAuthMethod", "one of "+strings.Join(authMethods, ", "))
	}
	if s.RedirectURI != "" && CheckRedirectURI(s.RedirectURI) != nil {
		return s, wrong("redirectUri", "an http url of this machine, an https url, or one of a scheme of the program's own")
	}
	return s, s.complete()
}

var errURL = errors.New("it cannot be used for a sign-in")

// CheckMetadataURL tells whether a URL can be a client ID: https, with a path.
func CheckMetadataURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" || strings.Trim(u.Path, "/") == "" {
		return errURL
	}
	return nil
}

// CheckRedirectURI tells whether a browser may come back there: by http only on this
// machine, else everybody on the way could read the code (RFC 8252 section 7).
func CheckRedirectURI(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Scheme == "" || u.User != nil || u.Fragment != "":
		return errURL
	case u.Scheme == "http":
		if !IsLoopbackHost(u.Hostname()) {
			return errURL
		}
	case u.Scheme == "https":
		if u.Host == "" {
			return errURL
		}
	case u.Scheme == "file", u.Scheme == "javascript", u.Scheme == "data":
		return errURL
	}
	return nil
}

// complete tells what a grant misses.
func (s *Settings) complete() error {
	missing := func(names string) error { return fmt.Errorf("oauth with the grant %q needs %s", s.grant(), names) }
	switch s.grant() {
	case GrantClient:
		if s.ClientID == "" || s.ClientSecret == "" && s.PrivateKey == "" {
			return missing("clientId, and clientSecret or privateKeyPem")
		}
	case GrantJWT:
		if s.Assertion == "" && s.AssertionFile == "" {
			return missing("assertion or assertionFile")
		}
	case GrantEnterprise:
		if s.ClientID == "" || s.IDToken == "" && s.IDTokenFile == "" || s.IDPIssuer == "" && s.IDPTokenEndpoint == "" {
			return missing("clientId, idToken or idTokenFile, and idpTokenEndpoint or idpIssuer")
		}
	}
	return nil
}

func wholeNumber(v any) (int, bool) {
	switch n := v.(type) {
	case int64:
		return int(n), int64(int(n)) == n
	case int:
		return n, true
	case float64:
		return int(n), float64(int(n)) == n
	case interface{ Int64() (int64, error) }: // json.Number
		i, err := n.Int64()
		return int(i), err == nil
	}
	return 0, false
}
