package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-json"
	"github.com/spf13/cobra"

	"github.com/mcprt/mcprt/core"
	"github.com/mcprt/mcprt/core/fault"
)

// clientOptions are the flags that discover, list and call have in common.
type clientOptions struct {
	cwd          string
	configs      []string
	user         string
	trustProject bool
	timeout      time.Duration
	cacheDir     string
	trace        string
	json         bool
	color        string

	watch  string       // what the option "watch" is to be; "" is its default
	events func([]byte) // gets each event in place of the spinner; must not block

	browser string                                                    // who opens the page of a sign-in; "": nobody is asked
	answer  func(kind string, request []byte, reply func(raw []byte)) // of sign-ins; must not block
}

func (o *clientOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&o.cwd, "cwd", "C", "", "project `directory` (default: the current one)")
	f.StringArrayVar(&o.configs, "config", nil, "read this config `file` too; may be repeated")
	f.StringVar(&o.user, "user", "own", "user-level `files` to read: own (mcprt's), all, or none")
	f.BoolVar(&o.trustProject, "trust-project", false, "run the project's servers without a trust record")
	f.DurationVar(&o.timeout, "timeout", 0, "`duration` of a start, or of a call without progress (default 30s)")
	f.StringVar(&o.cacheDir, "cache-dir", "", "tool cache `directory` (default: in the user's cache)")
	f.StringVar(&o.trace, "trace", "", "record what happens into this `file`, for mcprt trace")
	f.BoolVar(&o.json, "json", false, "print the library's JSON reply as it is")
	f.StringVar(&o.color, "color", "auto", "`when` to colour: auto (on a terminal, without NO_COLOR), always, never")
	mustComplete(cmd, "user", completeFlag("own", "all", "none"))
	mustComplete(cmd, "color", completeFlag("auto", "always", "never"))
}

// openOptions are the options of mcprt_open that the flags stand for.
func (o *clientOptions) openOptions() (map[string]any, error) {
	if !slices.Contains([]string{"own", "all", "none"}, o.user) {
		return nil, usageError("--user must be own, all or none, not %q", o.user)
	}
	if o.timeout < 0 {
		return nil, usageError("--timeout must not be negative")
	}
	for _, path := range slices.Concat([]string{o.cwd, o.cacheDir, o.trace}, o.configs) {
		if !utf8.ValidString(path) { // the library's options are JSON, which would carry another name
			return nil, usageError("the path %q is not UTF-8; go there and name it from there, or rename it", path)
		}
	}
	discovery := map[string]any{"user": o.user}
	if len(o.configs) > 0 {
		discovery["files"] = o.configs
	}
	options := map[string]any{
		"discovery":  discovery,
		"clientInfo": map[string]any{"name": "mcprt", "version": version},
	}
	if o.cwd != "" {
		if info, err := os.Stat(o.cwd); err != nil || !info.IsDir() {
			return nil, usageError("--cwd: %s is no directory", o.cwd)
		}
		options["cwd"] = o.cwd
	}
	if o.trustProject {
		options["projectTrust"] = "always"
	}
	if o.timeout > 0 {
		options["timeoutMs"] = max(1, o.timeout.Milliseconds())
	}
	if o.watch != "" {
		options["watch"] = o.watch
	}
	if o.browser != "" {
		options["auth"], options["answers"] = map[string]any{"openBrowser": o.browser}, []string{"authorization"}
	}
	if o.cacheDir != "" {
		options["cache"] = map[string]any{"dir": o.cacheDir}
	}
	if o.trace != "" {
		file, err := filepath.Abs(o.trace) // not below --cwd
		if err != nil {
			return nil, err
		}
		options["trace"] = map[string]any{"file": file}
	}
	return options, nil
}

// client runs the library's verbs.
type client struct {
	asks    bool // its user can be asked to sign in
	manager *core.Manager
	tag     atomic.Uint64
}

// openClient opens the library; onNotice gets each event, in order, and must not block.
func openClient(o *clientOptions, onNotice func([]byte)) (*client, error) {
	options, err := o.openOptions()
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	h := &host{onNotice: onNotice, answer: o.answer}
	h.manager, err = core.Open(encoded, h)
	if err != nil {
		return nil, err
	}
	return &client{manager: h.manager, asks: o.browser != ""}, nil
}

// close ends the servers within the configured grace.
func (c *client) close() { c.manager.Close(-1) }

// do runs one verb and gives its JSON reply, an error's too. When ctx ends the
// operation is cancelled.
func (c *client) do(ctx context.Context, verb core.Verb, request map[string]any) ([]byte, error) {
	encoded, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	var reply []byte
	var status core.Status
	done := make(chan struct{})
	cancel := c.manager.Start(verb, c.tag.Add(1), encoded, func(st core.Status, r core.Reply) {
		status, reply = st, slices.Concat(r.Head, r.Body, r.Tail)
		close(done)
	})
	select {
	case <-done:
	case <-ctx.Done():
		cancel()
		<-done
	}
	if status >= core.OK {
		return reply, nil
	}
	if ctx.Err() != nil {
		return reply, &exitError{code: exitInterrupted, message: "interrupted"}
	}
	var failed struct {
		Error *fault.Error `json:"error"`
	}
	if err := json.Unmarshal(reply, &failed); err != nil || failed.Error == nil {
		return reply, fault.New(fault.Internal, "", "the library answered with status %d and no error; please report it", status)
	}
	if e := failed.Error; e.Code == fault.NeedsTrust && e.Data.Path != "" { // the library tells a program what to do; here a person asks
		return reply, fmt.Errorf("server %q comes from a project file (%s) that nobody has approved; look at it with `mcprt discover`; %s", e.Server, e.Data.Path, trustAdvice(e.Server))
	}
	if e := failed.Error; e.Code == fault.Timeout {
		e.Message = strings.Replace(e.Message, "raise timeoutMs", "raise --timeout", 1)
	}
	if e := failed.Error; e.Code == fault.NeedsAuth && e.Server != "" && !c.asks {
		return reply, fmt.Errorf("%s; `mcprt login %s` does that", e.Message, e.Server)
	}
	return reply, failed.Error
}

// connect discovers and starts the servers, or only one when server is not "".
// It returns at the gate, or with settle when each of them is up or has failed.
func (c *client) connect(ctx context.Context, server string, settle bool) (*connectReport, error) {
	request := map[string]any{"tools": false}
	if settle {
		request["startupTimeoutMs"] = 0
	}
	if server != "" {
		request["only"] = []string{server}
	}
	reply, err := c.do(ctx, core.VerbConnect, request)
	if err != nil {
		return nil, err
	}
	var report connectReport
	if err := json.Unmarshal(reply, &report); err != nil {
		return nil, err
	}
	if e := report.Errors[server]; server != "" && e != nil {
		return nil, e
	}
	return &report, nil
}

// connectReport is what the commands use of the reply of connect.
type connectReport struct {
	Servers     []serverView            `json:"servers"`
	NeedsTrust  []struct{ Name string } `json:"needsTrust"`
	NeedsAuth   []string                `json:"needsAuth"`
	Errors      map[string]*fault.Error `json:"errors"`
	Diagnostics []diagnostic            `json:"diagnostics"`
}

// serverView is what the commands use of a ServerView.
type serverView struct {
	Name            string       `json:"name"`
	State           string       `json:"state"`
	ToolCount       int          `json:"toolCount"`
	ProtocolVersion string       `json:"protocolVersion"`
	ConnectMs       float64      `json:"connectMs"`
	Error           *fault.Error `json:"error"`
}

// diagnostic is what the commands use of a finding of discovery.
type diagnostic struct {
	Severity string `json:"severity"`
	Code     string `json:"code"`
	Server   string `json:"server"`
	Field    string `json:"field"`
	Path     string `json:"path"`
	Line     int    `json:"line"`
	Column   int    `json:"column"`
	Message  string `json:"message"`
}

// about is the server and the field, as far as the message does not name them.
func (d diagnostic) about() string {
	text := ""
	if d.Server != "" && !strings.Contains(d.Message, strconv.Quote(d.Server)) {
		text = fmt.Sprintf("server %q: ", d.Server)
	}
	if d.Field != "" && !strings.Contains(d.Message, d.Field) {
		text += d.Field + ": "
	}
	return text
}

// host is the host of the commands: it watches events, and answers what a command
// has an answer for.
type host struct {
	manager  *core.Manager
	onNotice func([]byte)
	answer   func(kind string, request []byte, reply func(raw []byte)) // nil: open names no kind in "answers"
}

func (h *host) Notice(data []byte)              { h.onNotice(data) }
func (h *host) RequestDone(uint64, core.Status) {}

func (h *host) Request(tag uint64, data []byte) {
	var r struct {
		Type string `json:"type"`
	}
	if h.answer != nil && json.Unmarshal(data, &r) == nil {
		h.answer(r.Type, data, func(reply []byte) { h.manager.Answer(tag, reply) })
	}
}
