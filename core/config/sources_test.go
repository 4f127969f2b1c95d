package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-json"
)

// sourceCase puts texts where a tool has its files and says in one line each
// what is found: "name [off] [needs trust] config", and "code server" per finding.
type sourceCase struct {
	name  string
	files map[string]string
	env   map[string]string
	goos  string
	want  []string
	codes []string
}

var sourceCases = []sourceCase{
	{name: "omp/typical", files: map[string]string{
		"$PROJECT/.omp/mcp.json":     `{"mcpServers": {"a": {"command": "x", "timeout": 5000}}}`,
		"$HOME/.omp/agent/.mcp.json": `{"mcpServers": {"b": {"type": "http", "url": "https://b.example.com", "auth": {"type": "oauth"}}}}`},
		want: []string{`a project {"type":"stdio","command":"x","timeoutMs":5000}`, `b user {"type":"http","url":"https://b.example.com","oauth":{"enabled":true,"type":"oauth"}}`}},
	{name: "omp/profile and switches", env: map[string]string{"OMP_PROFILE": "work"}, files: map[string]string{
		"$HOME/.omp/profiles/work/agent/mcp.json": `{"disabledServers": ["a"], "enabledServers": ["b"], "mcpServers": {"a": {"command": "x"}, "b": {"command": "y", "enabled": "0"}}}`,
		"$HOME/.omp/agent/mcp.json":               `{"mcpServers": {"other": {"command": "z"}}}`,
		"$HOME/.cursor/mcp.json":                  `{"mcpServers": {"c": {"command": "a"}}}`},
		want:  []string{`a off user {"type":"stdio","command":"x"}`, `b user {"type":"stdio","command":"y","enabled":false}`, `c user {"type":"stdio","command":"a"}`},
		codes: []string{"wrong_type b"}},
	{name: "omp/hostile profile", env: map[string]string{"PI_PROFILE": "../../evil", "PI_CONFIG_DIR": "/etc", "PI_CODING_AGENT_DIR": "relative"}, files: map[string]string{
		"$HOME/.omp/agent/mcp.json": `{"mcpServers": {"a": {"command": "x"}, "b": "!sh", "": {"command": "x"}}, "enabledServers": {"a": 1}}`},
		want: []string{`a user {"type":"stdio","command":"x"}`}, codes: []string{"wrong_type b", "invalid_name ", "wrong_type "}},

	{name: "claude-desktop/typical", files: map[string]string{
		"$CONFIG/Claude/claude_desktop_config.json": `{"globalShortcut": "", "mcpServers": {"fs": {"command": "npx", "args": ["-y", "x", "/tmp"]}}}`},
		want: []string{`fs user {"type":"stdio","command":"npx","args":["-y","x","/tmp"]}`}},
	{name: "claude-desktop/settings only", files: map[string]string{
		"$CONFIG/Claude/claude_desktop_config.json": `{"preferences": {"type": "x", "command": "y"}, "scale": 0}`}},
	{name: "claude-desktop/hostile", files: map[string]string{
		"$CONFIG/Claude/claude_desktop_config.json": `{"mcpServers": {"a": {"command": "x", "env": {"A=B": "1"}}, "b": {"command": ["", "x"]}, "c": {"command": "y"}, "c": {"command": "z"}}}`},
		want: []string{`c user {"type":"stdio","command":"z"}`}, codes: []string{"duplicate_server c", "wrong_type a", "wrong_type b", "missing_command b"}},

	{name: "codex/typical", files: map[string]string{
		"$PROJECT/.codex/config.toml": "[mcp_servers.\"my docs\"]\ncommand = 'npx'\nargs = [ \"-y\", # comment\n \"docs\", ]\nenv = { A = \"1\" }\ntool_timeout_sec = 0.5\nstartup_timeout_ms = 1500\n"},
		want: []string{`my docs project {"type":"stdio","command":"npx","args":["-y","docs"],"env":{"A":"1"},"timeoutMs":500,"startupTimeoutMs":1500}`}},
	{name: "codex/no expansion, other dir", env: map[string]string{"CODEX_HOME": "$HOME/elsewhere", "X": "no"}, files: map[string]string{
		"$HOME/elsewhere/config.toml": "[mcp_servers.a]\ncommand = \"${X}\"\nenv_vars = [\"OK\", \"not ok\", 7]\nenabled = \"false\"\n[mcp_servers.b]\nurl = \"https://b.example.com\"\nbearer_token_env_var = \"UNSET_TOKEN\"\n"},
		want: []string{`a off user {"type":"stdio","command":"${X}","envVars":["OK"],"enabled":false}`, `b user {"type":"http","url":"https://b.example.com","bearerTokenEnvVar":"UNSET_TOKEN"}`},
		// 7 is read as a string, and is no name either
		codes: []string{"wrong_type a", "wrong_type a", "wrong_type a", "wrong_type a", "unresolved_variable b"}},
	{name: "codex/hostile", files: map[string]string{
		"$PROJECT/.codex/config.toml": "[mcp_servers]\nnot = \"a table\"\n[mcp_servers.a]\ncommand = \"x\"\nurl = \"https://x\"\n[mcp_servers.b]\ncommand = \"\\u0000\"\n[[mcp_servers.c]]\ncommand = \"x\"\n[mcp_servers.d\n[mcp_servers.e]\ncommand = \"ok\"\n"},
		want:  []string{`e project {"type":"stdio","command":"ok"}`},
		codes: []string{"syntax ", "wrong_type not", "ambiguous_transport a", "wrong_type b", "wrong_type c"}},

	{name: "gemini/typical", files: map[string]string{
		"$HOME/.gemini/settings.json": `{"mcpServers": {"a": {"httpUrl": "https://a.example.com", "headers": {"X": "$TOK"}}, "b": {"url": "https://b.example.com/sse", "type": "http"}, "c": {"command": "c", "trust": true}}}`}, env: map[string]string{"TOK": "t"},
		want: []string{`a user {"type":"http","url":"https://a.example.com","headers":{"X":"$TOK"}}`, `b user {"type":"http","url":"https://b.example.com/sse"}`, `c user {"type":"stdio","command":"c","host":{"trust":true}}`}},
	{name: "gemini/allowed none, url before command", files: map[string]string{
		"$HOME/.gemini/settings.json": `{"mcp": {"allowed": [], "serverCommand": "x"}, "mcpServers": {"a": {"url": "$BASE/sse", "command": "c", "args": ["x"]}}}`}, env: map[string]string{"BASE": "https://a.example.com"},
		want: []string{`a off user {"type":"sse","url":"$BASE/sse","enabled":false}`}, codes: []string{"disabled_by_source a"}},
	{name: "gemini/hostile", files: map[string]string{
		"$HOME/.gemini/settings.json": `{"mcp": {"allowed": {"a": 1}, "excluded": 5}, "mcpServers": {"a": [], "b": {"command": "b"}, "5": {"command": "e"}, "mcp": null}}`},
		want: []string{`b user {"type":"stdio","command":"b"}`, `5 off user {"type":"stdio","command":"e","enabled":false}`}, codes: []string{"wrong_type a", "wrong_type mcp", "wrong_type ", "wrong_type ", "disabled_by_source 5"}},

	{name: "opencode/layers", files: map[string]string{
		"$HOME/.config/opencode/opencode.json": `{"mcp": {"a": {"type": "local", "command": ["a", "b"], "environment": {"T": "{file:./t}", "K": "1"}}, "u": {"type": "remote", "url": "https://u.example.com"}}}`,
		"$HOME/.config/opencode/t":             "user secret\n",
		"$PROJECT/t":                           "project's\n",
		"$PROJECT/opencode.json":               `{"mcp": {"a": {"enabled": false, "environment": {"K": "2"}}, "p": {"type": "remote", "url": "https://p.example.com"}}}`,
		"$PROJECT/.opencode/opencode.jsonc":    `{"mcp": {"p": {"timeout": 7000}, /* x */ }}`},
		want: []string{
			`p project {"type":"http","url":"https://p.example.com","timeoutMs":7000}`,
			`a off project {"type":"stdio","command":"a","args":["b"],"env":{"K":"2","T":"{file:$HOME/.config/opencode/t}"},"enabled":false}`,
			`u user {"type":"http","url":"https://u.example.com"}`}},
	{name: "opencode/odd", files: map[string]string{
		"$PROJECT/opencode.json": `{"mcp": {"s": {"type": "local", "command": "npx -y x"}, "v": {"type": "local", "command": ["x", "${HOME}"]}, "e": {"type": "local", "command": []}, "l": {"type": "remote", "url": "https://x.example.com", "oauth": {"clientId": "{env:UNSET}", "scope": "a b"}}}}`},
		want: []string{`s project {"type":"stdio","command":"npx -y x"}`, `v project {"type":"stdio","command":"x","args":["${HOME}"]}`,
			`l project {"type":"http","url":"https://x.example.com","oauth":{"clientId":"{env:UNSET}","enabled":true,"scopes":["a","b"]}}`},
		codes: []string{"missing_command e", "literal_variable v", "unresolved_variable l"}},
	{name: "opencode/hostile layers", files: map[string]string{
		"$HOME/.config/opencode/config.json": `{"mcp": {"a": {"type": "local", "command": ["a"]}, "b": 7, "c": {"command": {"a": {}}}}}`,
		"$PROJECT/opencode.json":             `{"mcp": {"a": {"command": {"x": 1}}, "b": {"enabled": true}, "c": null, "d": {"type": "local", "command": ["d"]}}}`},
		want:  []string{`d project {"type":"stdio","command":"d"}`, `a user {"type":"stdio","command":"a"}`},
		codes: []string{"wrong_type c", "wrong_type a", "wrong_type b", "wrong_type c", "overlay_without_server b"}},

	{name: "windsurf/typical", files: map[string]string{
		"$HOME/.codeium/windsurf/mcp_config.json": `{"mcpServers": {"a": {"serverUrl": "https://a.example.com/sse", "headers": {"K": "${file:~/k}", "E": "${env:E}"}, "disabledTools": ["x"]}}}`, "$HOME/k": "secret"}, env: map[string]string{"E": "e"},
		want: []string{`a user {"type":"http","url":"https://a.example.com/sse","headers":{"E":"${env:E}","K":"${file:~/k}"},"denyTools":["x"]}`}},
	{name: "windsurf/empty", files: map[string]string{"$PROJECT/.windsurf/mcp_config.json": "{\n  \"mcpServers\": {}\n}\n"}},
	{name: "windsurf/hostile", files: map[string]string{
		"$PROJECT/.windsurf/mcp_config.json": `{"mcpServers": {"a": {"serverUrl": "http://127.0.0.1::8089"}, "b": {"serverUrl": "javascript:x"}, "c": {"serverUrl": "localhost:9/x"}}}`},
		want: []string{`c project {"type":"http","url":"http://localhost:9/x"}`}, codes: []string{"invalid_url a", "invalid_url b", "missing_scheme c"}},

	{name: "cline/typical", files: map[string]string{
		"$CONFIG/VSCodium/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json": `{"mcpServers": {"a": {"command": "x", "timeout": 30, "autoApprove": ["t"], "disabled": false}}}`},
		want: []string{`a user {"type":"stdio","command":"x","enabled":true,"timeoutMs":30000,"host":{"autoApprove":["t"]}}`}},
	{name: "cline/both switches", files: map[string]string{
		"$HOME/.cline/data/settings/cline_mcp_settings.json": `{"mcpServers": {"a": {"command": "x", "disabled": false, "isActive": false, "transportType": "SSE", "timeout": "2m"}, "b": {"transportType": "sse", "url": "https://b"}}}`},
		want: []string{`b user {"type":"sse","url":"https://b"}`}, codes: []string{"missing_url a"}},
	{name: "cline/hostile", files: map[string]string{
		"$HOME/.cline/data/settings/cline_mcp_settings.json": `{"mcpServers": {"a": {"command": "x", "timeout": 1e300}, "b": {"command": "y", "timeout": -5}, "c": {"command": "z", "timeout": []}}}`},
		want:  []string{`a user {"type":"stdio","command":"x"}`, `b user {"type":"stdio","command":"y"}`, `c user {"type":"stdio","command":"z"}`},
		codes: []string{"wrong_type a", "timeout_default b", "wrong_type c"}},

	{name: "roo/typical", files: map[string]string{
		"$PROJECT/.roo/mcp.json": `{"mcpServers":{"a":{"command":"x","cwd":"sub","alwaysAllow":["r"]}}}`, "$PROJECT/sub/x": ""},
		want: []string{`a project {"type":"stdio","command":"x","cwd":"sub","host":{"alwaysAllow":["r"]}}`}},
	{name: "roo/remote window", files: map[string]string{
		"$HOME/.vscode-server/data/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json": `{"mcpServers":{"a":{"type":"streamable_http","url":"https://a.example.com","timeout":60}}}`},
		want: []string{`a user {"type":"http","url":"https://a.example.com","timeoutMs":60000}`}},
	{name: "roo/hostile", files: map[string]string{"$PROJECT/.roo/mcp.json": `{"mcpServers":{"a":{"command":"x","disabledTools":{"a":1}},"b":{"type":"websocket","url":"wss://x"},"c":{"command":"c"`},
		codes: []string{"syntax "}},

	{name: "amazonq/typical", files: map[string]string{"$HOME/.aws/amazonq/mcp.json": `{"mcpServers": {"a": {"command": "x", "timeout": 60000, "disabled": true}}}`},
		want: []string{`a off user {"type":"stdio","command":"x","enabled":false,"timeoutMs":60000}`}},
	{name: "amazonq/agent", files: map[string]string{"$PROJECT/.amazonq/agents/default.json": `{"name": "default", "command": "not a server", "tools": ["*"], "mcpServers": {"a": {"command": "x"}}}`},
		want: []string{`a project {"type":"stdio","command":"x"}`}},
	{name: "amazonq/agent without servers", files: map[string]string{"$PROJECT/.amazonq/default.json": `{"hooks": {"command": "x"}}`}},

	{name: "copilot/typical", files: map[string]string{"$PROJECT/.github/mcp.json": `{"mcpServers": {"a": {"type": "local", "command": "x", "tools": []}}}`},
		want: []string{`a project {"type":"stdio","command":"x","allowTools":[]}`}},
	{name: "copilot/moved", env: map[string]string{"COPILOT_HOME": "$HOME/c"}, files: map[string]string{"$HOME/c/mcp-config.json": `{"mcpServers": {"a": {"type": "http", "url": "https://a.example.com", "tools": ["*"]}}}`},
		want: []string{`a user {"type":"http","url":"https://a.example.com","allowTools":["*"]}`}},
	{name: "copilot/hostile", files: map[string]string{"$PROJECT/.github/mcp.json": `{"mcpServers": [{"name": "a", "command": "x"}, {"command": "y"}, 5, {"Name": "b", "Command": "z", "Args": "one"}]}`},
		want:  []string{`a project {"type":"stdio","command":"x","host":{"name":"a"}}`, `b project {"type":"stdio","command":"z","args":["one"],"host":{"Name":"b"}}`},
		codes: []string{"invalid_name ", "invalid_name ", "wrong_type b"}},

	{name: "zed/typical", files: map[string]string{"$HOME/.config/zed/settings.json": "// Zed settings\n{\n  \"theme\": \"One\",\n  \"context_servers\": {\"a\": {\"command\": {\"path\": \"x\", \"args\": [\"1\"], \"env\": null}}},\n}\n"},
		want: []string{`a user {"type":"stdio","command":"x","args":["1"]}`}, codes: []string{"wrong_type a"}},
	{name: "zed/extension with a switch", goos: "windows", files: map[string]string{"$CONFIG/Zed/settings.json": `{"context_servers": {"e": {"enabled": false, "settings": {}}, "f": {"source": "extension"}, "g": {"command": "g", "enabled": false}}}`},
		want: []string{`g off user {"type":"stdio","command":"g","enabled":false}`}, codes: []string{"unsupported_entry e", "unsupported_entry f"}},
	{name: "zed/hostile", files: map[string]string{"$PROJECT/.zed/settings.json": `{"context_servers": {"a": {"command": {"path": ["x"]}}, "b": {"command": {"args": []}}, "c": {"command": {"path": "c", "args": {"a": 1}}}, "d": {"command": "d"}}}`},
		want: []string{`d project {"type":"stdio","command":"d"}`}, codes: []string{"wrong_type a", "wrong_type b", "wrong_type c"}},

	{name: "goose/typical", files: map[string]string{"$HOME/.config/goose/config.yaml": "GOOSE_MODEL: m\nextensions:\n  fetch:\n    type: stdio\n    cmd: uvx\n    args:\n      - mcp-server-fetch\n    enabled: true\n    timeout: 300\n    description: Fetch pages\n    bundled: null\n  memory:\n    type: builtin\n"},
		want: []string{`fetch user {"type":"stdio","command":"uvx","args":["mcp-server-fetch"],"enabled":true,"timeoutMs":300000,"host":{"description":"Fetch pages"}}`}},
	{name: "goose/own env first, literal env", env: map[string]string{"TOK": "outer"}, files: map[string]string{"$HOME/.config/goose/config.yaml": "extensions:\n  a:\n    type: sse\n    uri: https://a.example.com/$x\n    envs: {TOK: inner$y}\n    headers: {Authorization: \"Bearer ${TOK}\"}\n"},
		want: []string{`a user {"type":"sse","env":{"TOK":"inner$y"},"url":"https://a.example.com/$x","headers":{"Authorization":"Bearer ${TOK}"}}`}},
	{name: "goose/hostile", files: map[string]string{"$HOME/.config/goose/config.yaml": "extensions:\n  a: &a\n    cmd: x\n    args: [*b]\n  c:\n    type: inline_python\n    code: print(1)\n  d:\n    cmd: \"d\"\n    env_keys: [1, A B]\n  e: \"str\n"},
		want: []string{`d user {"type":"stdio","command":"d"}`}, codes: []string{"syntax a", "unsupported_transport c", "wrong_type d", "wrong_type d", "wrong_type d", "syntax e"}},

	{name: "vscode/settings", files: map[string]string{
		"$PROJECT/.vscode/settings.json":  `{"editor.tabSize": 2, "mcp": {"inputs": [{"id": "t", "type": "pickString", "options": ["a", {"label": "B", "value": "b"}]}], "servers": {"a": {"command": "x", "args": ["${input:t}"]}}}}`,
		"$CONFIG/Code/User/settings.json": `{"mcp.servers": {"b": {"type": "http", "url": "https://b.example.com"}}}`},
		want: []string{`a project {"type":"stdio","command":"x","args":["${input:t}"]} ask t`, `b user {"type":"http","url":"https://b.example.com"}`}, codes: []string{"needs_input a"}},
	{name: "vscode/odd", env: map[string]string{"A": "1"}, files: map[string]string{
		"$PROJECT/.vscode/mcp.json": `{"inputs": [{"description": "no id"}, 5], "servers": {"a": {"command": "${command:pick}"}, "b": {"command": "${workspaceFolder}${/}x", "args": ["${workspaceFolder:other}"]}}}`},
		want: []string{`a project {"type":"stdio","command":"${command:pick}"}`, `b project {"type":"stdio","command":"${workspaceFolder}${/}x","args":["${workspaceFolder:other}"]}`},
		// the spelling with a folder's name is kept as it is
		codes: []string{"wrong_type ", "wrong_type ", "unsupported_variable a", "literal_variable b"}},
	{name: "vscode/hostile", files: map[string]string{"$PROJECT/.vscode/settings.json": `{"command": "x", "a": {"command": "y"}, "mcp": [{"servers": 1}]}`, "$PROJECT/.vscode/mcp.json": `{"servers": {"a": {"command": "x"}}, "inputs": {"id": "x"}}`},
		want: []string{`a project {"type":"stdio","command":"x"}`}},

	{name: "cursor/two wrappers", files: map[string]string{
		"$PROJECT/.cursor/mcp.json": `{"mcpServers": {"a": {"command": "x"}}, "servers": {"b": {"command": "y"}}, "mcp": {"servers": {}}, "context_servers": {"note": "none"}}`},
		want: []string{`a project {"type":"stdio","command":"x"}`}, codes: []string{"unknown_wrapper "}},
	{name: "cursor/empty wrapper first", files: map[string]string{
		"$PROJECT/.cursor/mcp.json": `{"mcpServers": {}, "mcp": null, "servers": {"b": {"command": "y"}}}`},
		want: []string{`b project {"type":"stdio","command":"y"}`}},
	{name: "cursor/pasted too deep", files: map[string]string{
		"$PROJECT/.cursor/mcp.json": `{"mcpServers": {"mcpServers": {"a": {"command": "x"}}, "b": {"mcpServers": {"c": {"command": "y"}}}, "d": {"command": "z"}}}`},
		want: []string{`d project {"type":"stdio","command":"z"}`}, codes: []string{"missing_command mcpServers", "missing_command b"}},
	{name: "cursor/comments as members", files: map[string]string{
		"$PROJECT/.cursor/mcp.json": `{"mcpServers": {"_comment": "mine", "//": "x", "a": {"command": "x"}, "b": "text", "_c": {"command": "c"}}}`},
		want:  []string{`a project {"type":"stdio","command":"x"}`, `_c project {"type":"stdio","command":"c"}`},
		codes: []string{"unsupported_entry ", "unsupported_entry ", "wrong_type b"}},
	{name: "cursor/lists of names and values", files: map[string]string{
		"$PROJECT/.cursor/mcp.json": `{"mcpServers": {"a": {"command": "x", "env": [{"name": "A", "value": "1"}, {"key": "B", "value": 2}, null, "C=d=e"]},
			"b": {"url": "https://b.example.com", "headers": [{"name": "X-B", "value": "v"}]}, "c": {"command": "z", "env": [{"A": "1"}]}, "d": {"command": "z", "env": [{"name": "=", "value": "1"}]}}}`},
		want:  []string{`a project {"type":"stdio","command":"x","env":{"A":"1","B":"2","C":"d=e"}}`, `b project {"type":"http","url":"https://b.example.com","headers":{"X-B":"v"}}`},
		codes: []string{"wrong_type a", "wrong_type a", "wrong_type a", "wrong_type b", "wrong_type c", "wrong_type c", "wrong_type d", "wrong_type d"}},
	{name: "cursor/variables of other dialects", files: map[string]string{
		"$PROJECT/.cursor/mcp.json": `{"mcpServers": {"a": {"command": "$TOOLS/x", "args": ["US$5", "-c", "echo $HOME"], "env": {"A": "$TOKEN", "B": "%TOKEN%", "C": "$env:token", "D": "pa$$word", "E": "$ecret"}}, "b": {"url": "https://b.example.com", "headers": {"Authorization": "Bearer $TOKEN"}}}}`},
		want: []string{`a project {"type":"stdio","command":"$TOOLS/x","args":["US$5","-c","echo $HOME"],"env":{"A":"$TOKEN","B":"%TOKEN%","C":"$env:token","D":"pa$$word","E":"$ecret"}}`,
			`b project {"type":"http","url":"https://b.example.com","headers":{"Authorization":"Bearer $TOKEN"}}`},
		codes: []string{"literal_variable a", "literal_variable a", "literal_variable a", "literal_variable a", "literal_variable b"}},
	{name: "cursor/commas are missing", files: map[string]string{
		"$PROJECT/.cursor/mcp.json": "{\"mcpServers\": {\"a\": {\"command\": \"x\"}\n\"b\": {\"command\": \"y\" \"args\": []}, \"c\": {\"command\": \"z\"}} \"other\": 1}"},
		want:  []string{`a project {"type":"stdio","command":"x"}`, `c project {"type":"stdio","command":"z"}`},
		codes: []string{"syntax b", "syntax ", "syntax "}},
	{name: "cursor/windows paths", files: map[string]string{
		"$PROJECT/.cursor/mcp.json": `{"mcpServers": {"a": {"command": "C:\Users\x.exe"}, "b": {"command": "node", "args": ["C:\temp\node.js"]}, "c": {"command": "C:\\temp\\x.exe"}}}`},
		want:  []string{`b project {"type":"stdio","command":"node","args":["C:\temp\node.js"]}`, `c project {"type":"stdio","command":"C:\\temp\\x.exe"}`},
		codes: []string{"syntax a", "suspicious_arg b"}},
	{name: "zed/another tool's wrapper", files: map[string]string{"$PROJECT/.zed/settings.json": `{"theme": {"a": {}}, "mcpServers": {"a": {"command": "x"}}}`},
		codes: []string{"unknown_wrapper "}},
	{name: "vscode/its own wrapper first", files: map[string]string{"$PROJECT/.vscode/mcp.json": `{"mcpServers": {"a": {"command": "x"}}, "servers": {"b": {"command": "y"}}}`},
		want: []string{`b project {"type":"stdio","command":"y"}`}, codes: []string{"unknown_wrapper "}},
	{name: "gemini/older lists", files: map[string]string{"$PROJECT/.gemini/settings.json": `{"allowMCPServers": ["a", "b"], "excludeMCPServers": ["b"], "mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}, "c": {"command": "z"}}}`},
		want:  []string{`a project {"type":"stdio","command":"x"}`, `b off project {"type":"stdio","command":"y","enabled":false}`, `c off project {"type":"stdio","command":"z","enabled":false}`},
		codes: []string{"disabled_by_source b", "disabled_by_source c"}},
	{name: "codex/what it refuses", files: map[string]string{"$PROJECT/.codex/config.toml": "[mcp_servers.a]\nurl = \"https://a.example.com:99999/mcp\"\n[mcp_servers.b]\nurl = \"https://b.example.com\"\nbearer_token = \"t\"\n"},
		want: []string{`b project {"type":"http","url":"https://b.example.com"}`}, codes: []string{"invalid_url a", "unsupported_field b"}},

	{name: "claude-plugins/typical", files: map[string]string{
		"$HOME/.claude/plugins/installed_plugins.json": `{"version": 2, "plugins": {"db@market": [{"scope": "user", "installPath": "$HOME/p/db"}], "old@m": {"installPath": "$HOME/p/old"}, "off@m": [{"installPath": "$HOME/p/off"}]}}`,
		"$HOME/.claude/settings.json":                  `{"enabledPlugins": {"off@m": false, "db@market": true}}`,
		"$HOME/p/db/.mcp.json":                         `{"main": {"command": "${CLAUDE_PLUGIN_ROOT}/bin/db", "args": ["${CLAUDE_PLUGIN_DATA}"]}}`,
		"$HOME/p/old/.claude-plugin/plugin.json":       `{"name": "old", "mcpServers": {"s": {"url": "https://s.example.com"}}}`,
		"$HOME/p/off/.claude-plugin/plugin.json":       `{"mcpServers": ["./servers/a.json", "${CLAUDE_PLUGIN_ROOT}/b.json"]}`,
		"$HOME/p/off/servers/a.json":                   `{"mcpServers": {"a": {"command": "a"}}}`,
		"$HOME/p/off/b.json":                           `{"b": {"command": "b"}}`},
		want: []string{`db:main user {"type":"stdio","command":"${CLAUDE_PLUGIN_ROOT}/bin/db","args":["${CLAUDE_PLUGIN_DATA}"]}`, `old:s user {"type":"http","url":"https://s.example.com"}`,
			`off:a off user {"type":"stdio","command":"a","enabled":false}`, `off:b off user {"type":"stdio","command":"b","enabled":false}`},
		codes: []string{"bare_root ", "disabled_by_source off:a", "bare_root ", "disabled_by_source off:b"}},
	{name: "claude-plugins/projects", env: map[string]string{"CLAUDE_CONFIG_DIR": "$HOME/cc"}, files: map[string]string{
		"$HOME/cc/plugins/installed_plugins.json": `{"plugins": {"here@m": [{"scope": "local", "projectPath": "$PROJECT/", "installPath": "$HOME/p/here"}], "there@m": [{"projectPath": "/elsewhere", "installPath": "$HOME/p/here"}]}}`,
		"$HOME/p/here/.mcp.json":                  `{"mcpServers": {"a": {"command": "./a"}}}`},
		want: []string{`here:a local {"type":"stdio","command":"./a"}`}},
	{name: "claude-plugins/hostile", files: map[string]string{
		"$HOME/.claude/plugins/installed_plugins.json": `{"plugins": {"esc@m": [{"installPath": "$HOME/p/esc"}], "rel@m": [{"installPath": "p/rel"}], "n": 5, "gone@m": [{"installPath": "$HOME/p/gone"}, null], "bad\u0007@m": [{"installPath": "$HOME/p/bad"}]}}`,
		"$HOME/.claude/settings.json":                  `{"enabledPlugins": ["x"]}`,
		"$HOME/p/esc/.claude-plugin/plugin.json":       `{"mcpServers": ["../../../etc/passwd", "./missing.json", 5, "/etc/passwd"]}`,
		"$HOME/p/bad/.mcp.json":                        `{"a": {"command": "x"}}`,
		"$HOME/p/gone/.claude-plugin/plugin.json":      `{`},
		codes: []string{"outside_plugin ", "missing_file ", "wrong_type ", "outside_plugin ", "syntax ", "bare_root ", "invalid_name "}},
}

func TestSources(t *testing.T) {
	for _, c := range sourceCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDirs(t)
			for place, text := range c.files {
				d.write(t, place, d.real(text))
			}
			vars := map[string]string{"HOME": d.home, "USERPROFILE": d.home, "APPDATA": d.config}
			for name, value := range c.env {
				vars[name] = d.real(value)
			}
			goos := c.goos
			if goos == "" {
				goos = "linux"
			}
			r, err := Discover(t.Context(), Options{Cwd: d.project, Env: newEnv(goos, vars), Project: true, User: User{All: true}, ProjectTrust: TrustAlways})
			if err != nil {
				t.Fatal(err)
			}
			var got, found []string
			for _, e := range r.Entries {
				line := e.Name
				if !e.Enabled {
					line += " off"
				}
				text, err := json.MarshalWithOption(e.Server, json.DisableHTMLEscape())
				if err != nil {
					t.Fatal(err)
				}
				line += fmt.Sprintf(" %s %s", e.Origin.Level, text)
				for _, p := range e.Prompts {
					line += " ask " + p.ID
				}
				got = append(got, strings.ReplaceAll(line, d.home, "$HOME"))
				if want, _, _ := strings.Cut(c.name, "/"); e.Origin.Provider != want && e.Origin.Provider != "cursor" {
					t.Errorf("%s is from %s", e.Name, e.Origin.Provider)
				}
			}
			for _, d := range r.Diagnostics {
				found = append(found, d.Code+" "+d.Server)
				if d.Path == "" || d.Message == "" {
					t.Errorf("incomplete: %+v", d)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("entries\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(c.want, "\n     "))
			}
			if !slices.Equal(found, c.codes) {
				t.Errorf("findings\n got %q\nwant %q", found, c.codes)
			}
		})
	}
}

// TestEverySourceHasCases: typical, odd and hostile.
func TestEverySourceHasCases(t *testing.T) {
	count := map[string]int{}
	for _, c := range sourceCases {
		id, _, _ := strings.Cut(c.name, "/")
		count[id]++
	}
	elsewhere := []string{"mcprt", "claude", "cursor", "mcp-json"} // in discover_test.go and among the golden cases
	for _, s := range Registered() {
		if count[s.ID] < 3 && !slices.Contains(elsewhere, s.ID) {
			t.Errorf("%s has %d cases", s.ID, count[s.ID])
		}
	}
}
