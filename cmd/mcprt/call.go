package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-json"
	"github.com/spf13/cobra"

	"github.com/mcprt/mcprt/core"
)

// maxArguments bounds what call reads from stdin.
const maxArguments = 64 << 20

// ownMethods begins the names of the library's own methods.
const ownMethods = "mcprt/"

func callCommand() *cobra.Command {
	var o clientOptions
	var server, method string
	cmd := &cobra.Command{
		Use:   "call TOOL [NAME=VALUE ... | JSON | -]",
		Short: "Call a tool, or another method of a server",
		Long: `Start the servers and call a tool by the name that ` + "`mcprt list`" + ` shows. With --server
only that server is started, and TOOL is the name that the server itself uses.
Arguments are NAME=VALUE words, where a value is JSON if it can be and else text; or
one JSON object; or - for one on stdin.

With --method another MCP method is called, and what follows holds its params.
Methods that begin with mcprt/ are the library's own and need no server.`,
		Example: `  mcprt call mcp_demo_echo text=hi
  mcprt call --server demo add a=1 b=2
  mcprt call mcp_demo_add '{"a": 1, "b": 2}'
  mcprt call --server files --method resources/read '{"uri": "file:///a"}'
  mcprt call --method mcprt/cache.info`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case method != "" && server == "" && !strings.HasPrefix(method, ownMethods):
				return usageError("--method needs --server, since each server has its own methods")
			case method == "" && len(args) < 1:
				return usageError("call takes a tool and its arguments; see mcprt call --help")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			request := map[string]any{"progress": true}
			member := "params"
			if method == "" {
				member = "arguments"
				request["tool"] = args[0]
				args = args[1:]
			} else {
				request["method"] = method
			}
			if server != "" {
				request["server"] = server
			}
			arguments, err := readArguments(cmd.InOrStdin(), args)
			if err != nil {
				return err
			}
			if arguments != nil {
				request[member] = arguments
			}
			if o.timeout > 0 {
				request["timeoutMs"] = max(1, o.timeout.Milliseconds())
			}
			return withSession(cmd, &o, "connecting", func(s *session) error {
				return call(s, server, request)
			})
		},
	}
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	o.register(cmd)
	f := cmd.Flags()
	f.StringVar(&server, "server", "", "start only this `server` and call its tool by its own name")
	f.StringVar(&method, "method", "", "call this `method` instead of a tool")
	mustComplete(cmd, "server", completeServers(&o))
	return cmd
}

// readArguments gives the arguments of a call as JSON, or nil when there are none.
// JSON is passed on as written, so that big numbers survive.
func readArguments(stdin io.Reader, words []string) (json.RawMessage, error) {
	if len(words) == 0 {
		return nil, nil
	}
	if words[0] == "-" || strings.HasPrefix(strings.TrimSpace(words[0]), "{") {
		if len(words) > 1 {
			return nil, usageError("%q stands behind the JSON arguments; give them as one JSON object or as NAME=VALUE words, not both", words[1])
		}
		return readObject(stdin, words[0])
	}
	object := make(map[string]json.RawMessage, len(words))
	for _, word := range words {
		name, value, found := strings.Cut(word, "=")
		if !found || name == "" {
			return nil, usageError("%q stands where arguments do; give them as NAME=VALUE words or as one JSON object (TOOL is mcp_server_tool, or --server SERVER TOOL)", word)
		}
		if _, twice := object[name]; twice {
			return nil, usageError("the argument %q is given twice", name)
		}
		if !json.Valid([]byte(value)) {
			quoted, err := json.Marshal(value)
			if err != nil {
				return nil, err
			}
			value = string(quoted)
		}
		object[name] = json.RawMessage(value)
	}
	return json.Marshal(object)
}

// readObject gives one JSON object as it was written; "-" stands for the one on stdin.
func readObject(stdin io.Reader, word string) (json.RawMessage, error) {
	text := []byte(word)
	if word == "-" {
		var err error
		if text, err = io.ReadAll(io.LimitReader(stdin, maxArguments+1)); err != nil {
			return nil, fmt.Errorf("the arguments could not be read from stdin: %w", err)
		}
		if len(text) > maxArguments {
			return nil, usageError("the arguments on stdin are larger than %d bytes", maxArguments)
		}
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil || object == nil {
		return nil, usageError("the arguments must be one JSON object, such as '{\"text\": \"hi\"}', or NAME=VALUE words")
	}
	return text, nil
}

func call(s *session, server string, request map[string]any) error {
	report := &connectReport{}
	if method, _ := request["method"].(string); !strings.HasPrefix(method, ownMethods) {
		var err error
		if report, err = s.connect(s.ctx, server, false); err != nil {
			return err
		}
	}
	s.spin.say("calling")
	reply, err := s.do(s.ctx, core.VerbCall, request)
	if err != nil {
		if !s.raw(reply) && server == "" {
			s.report(report) // the tool may be missing because its server is
		}
		return err
	}
	var outcome struct {
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(reply, &outcome); err != nil {
		return err
	}
	var result toolResult
	isToolResult := request["tool"] != nil && json.Unmarshal(outcome.Result, &result) == nil
	if !s.raw(reply) {
		s.spin.end()
		if isToolResult {
			result.print(s.stdout)
		} else {
			fmt.Fprintf(s.stdout, "%s\n", outcome.Result)
		}
	}
	if isToolResult && result.IsError {
		return &exitError{code: exitToolFailed}
	}
	return nil
}

// toolResult is what the command prints of a tool's result.
type toolResult struct {
	Content []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Data     string `json:"data"`
		MIMEType string `json:"mimeType"`
		URI      string `json:"uri"`
		Resource struct {
			URI  string `json:"uri"`
			Text string `json:"text"`
		} `json:"resource"`
	} `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent"`
	IsError           bool            `json:"isError"`
}

// print writes the text of a result, and a line for each part that is not text.
func (r *toolResult) print(p *painter) {
	for _, c := range r.Content {
		switch {
		case c.Type == "text":
			p.text(c.Text)
		case c.Data != "":
			fmt.Fprintf(p, "[%s, %s, %d bytes; --json has them]\n", oneLine(c.Type), oneLine(c.MIMEType), len(c.Data)*3/4)
		case c.Resource.Text != "":
			p.text(c.Resource.Text)
		default:
			fmt.Fprintf(p, "[%s %s]\n", oneLine(c.Type), oneLine(c.URI+c.Resource.URI))
		}
	}
	if len(r.Content) == 0 && len(r.StructuredContent) > 0 {
		fmt.Fprintf(p, "%s\n", r.StructuredContent)
	}
}
