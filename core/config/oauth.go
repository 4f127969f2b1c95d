package config

import "strings"

// oauthNames maps the spellings of several tools onto the members that mcprt's
// own config has. Members that are missing here are kept as they are.
var oauthNames = map[string]string{
	"clientid": "clientId", "clientsecret": "clientSecret", "scope": "scopes", "scopes": "scopes",
	"callbackport": "callbackPort", "redirectport": "callbackPort", "redirecturi": "redirectUri",
	"metadataurl": "metadataUrl", "authservermetadataurl": "metadataUrl", "enabled": "enabled",
	"grant": "grant", "granttype": "grant", "tokenendpointauthmethod": "tokenEndpointAuthMethod", "issuer": "issuer", "resource": "resource", "dpop": "dpop",
	"privatekeypem": "privateKeyPem", "signingalgorithm": "signingAlgorithm", "keyid": "keyId", "assertion": "assertion", "assertionfile": "assertionFile",
	"idtoken": "idToken", "idtokenfile": "idTokenFile", "idpclientid": "idpClientId", "idpclientsecret": "idpClientSecret", "idpissuer": "idpIssuer",
	"idptokenendpoint": "idpTokenEndpoint",
}

// oauth reads the block that says how to sign in: false, true, the word "oauth",
// or an object.
func (m *mapper) oauth(s *Server, v *Node, key string) {
	put := s.putOAuth
	switch {
	case v.Kind == KindBool:
		put("enabled", v.Text == "true")
	case v.Kind == KindString && strings.EqualFold(v.Text, "oauth"):
		put("enabled", true)
	case v.Kind == KindString && key == "auth" && v.Text != "":
		m.bearer(s, v)
	case v.Kind == KindString && v.Text == "":
	case v.Kind == KindObject:
		put("enabled", true)
		for _, member := range v.Members {
			name, known := oauthNames[strings.ToLower(strings.ReplaceAll(member.Name, "_", ""))]
			if !known {
				name = member.Name
			}
			field := key + "." + member.Name
			m.at["oauth."+name] = member.Value.Pos
			switch {
			case name == "scopes":
				put(name, m.scopes(member.Value, field))
			case name == "enabled":
				if on, ok := m.bool(member.Value, field); ok {
					put(name, on)
				}
			case member.Value.Kind != KindNull:
				put(name, member.Value.any())
			}
		}
	case v.Kind == KindNull:
	default:
		m.wrong(key, v, "an object, or false")
	}
}

// bearer reads "auth": "<token>", as FastMCP writes it.
func (m *mapper) bearer(s *Server, v *Node) {
	if strings.EqualFold(v.Text, "none") {
		return
	}
	token, ok := m.text(v, "auth")
	if !ok {
		return
	}
	if s.Headers == nil {
		s.Headers = map[string]string{}
	}
	m.at["headers.Authorization"] = v.Pos
	s.Headers["Authorization"] = "Bearer " + strings.TrimPrefix(token, "Bearer ")
}

// scopes may be one string with spaces, as in the protocol itself.
func (m *mapper) scopes(v *Node, field string) []string {
	if v.Kind == KindString {
		return strings.Fields(v.Text)
	}
	list, _ := m.strings(v, field)
	return list
}
