package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcprt/mcprt/core/mcptest"
)

// faultFlags are the flags of fault-server. Each is one fault, or a measure of one;
// docs/fault-server.md says for each what a host should see.
type faultFlags struct {
	script mcptest.Script

	dirty          bool
	dirtyLate      bool
	modern         bool
	dual           bool
	discover       string
	cursors        string
	tools          int
	nameBytes      int
	oddSchemas     bool
	refSchemas     bool
	exitAtStart    int
	exitAtInit     int
	http           string
	httpTLS        string
	httpJSON       bool
	httpSSE        bool
	httpGet        int
	httpStatus     int
	httpNewline    string
	httpBytes      bool
	httpExpire     int
	httpOneSession bool
	httpCut        bool
	http401        bool
}

const noExit = -1

func faultServerCommand() *cobra.Command {
	var o faultFlags
	cmd := &cobra.Command{
		Use:   "fault-server",
		Short: "Run an MCP server that misbehaves as told, to try a client with",
		Long: `Run an MCP server whose faults are named by flags, on stdin and stdout or, with
--http, behind a socket of this machine. Flags combine. Without a flag it is a
well-behaved server whose tools do harm when they are called: die, hang, deaf,
big, spam, late and others.

docs/fault-server.md says for each fault what a host should see.`,
		Example: `  mcprt fault-server --dirty --stderr-bytes 1048576
  mcprt fault-server --http 127.0.0.1:0 --http-get 404
  {"mcpServers": {"bad": {"command": "mcprt", "args": ["fault-server", "--discover", "exit"]}}}`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			mcptest.Main() // a child that the server itself started goes no further
			if err := o.complete(cmd.Flags()); err != nil {
				return err
			}
			if o.http != "" {
				return o.serveHTTP(cmd)
			}
			if code := mcptest.Serve(o.script); code != 0 {
				return &exitError{code: code}
			}
			return nil
		},
	}
	o.register(cmd.Flags())
	return cmd
}

func (o *faultFlags) register(f *pflag.FlagSet) {
	f.SortFlags = false
	s := &o.script
	f.StringVar(&s.Name, "name", "fault-server", "server `name` to report")
	f.StringVar(&s.LogFile, "log", "", "append one JSON line per start, message, cancellation and exit to this `file`")

	// What it writes beside messages.
	f.BoolVar(&o.dirty, "dirty", false, "print a banner, a byte order mark, empty and coloured lines, logs and half a message before and between the messages")
	f.BoolVar(&o.dirtyLate, "dirty-late", false, "as --dirty, but only once the handshake was answered")
	f.StringVar(&s.Stderr, "stderr", "", "write this `text` to stderr at the start")
	f.IntVar(&s.StderrBytes, "stderr-bytes", 0, "write `n` bytes without a newline to stderr at the start")

	// How it starts and ends.
	f.DurationVar(&s.StartDelay, "start-delay", 0, "read nothing before this `duration` has passed")
	f.DurationVar(&s.InitializeDelay, "initialize-delay", 0, "answer initialize and server/discover after this `duration`")
	f.BoolVar(&s.SilentInitialize, "silent-initialize", false, "never answer initialize")
	f.IntVar(&o.exitAtStart, "exit-at-start", noExit, "exit with this `code` before anything is read")
	f.IntVar(&o.exitAtInit, "exit-at-initialize", noExit, "exit with this `code` in place of the answer to initialize")
	f.IntVar(&s.Crashes, "crashes", 0, "the first `n` processes exit with 3 after they listed their tools (-1: all; else --state counts them)")
	f.StringVar(&s.StateFile, "state", "", "the `file` in which --crashes counts the starts")
	f.BoolVar(&s.IgnoreEOF, "ignore-eof", false, "go on after stdin was closed")
	f.BoolVar(&s.IgnoreTerm, "ignore-term", false, "go on after SIGTERM")
	f.BoolVar(&s.Wrapped, "wrapped", false, "run as a child of the process that was started, as npx and uvx do")
	f.BoolVar(&s.Grandchild, "grandchild", false, "start a child that holds the pipes and never ends by itself")

	// Which protocol it speaks.
	f.BoolVar(&o.modern, "modern", false, "speak 2026-07-28 alone: no initialize, and changes are told only to who listens")
	f.BoolVar(&o.dual, "dual", false, "speak 2026-07-28 and every older version")
	f.StringVar(&o.discover, "discover", "", "what happens at server/discover: `how` is exit, silence, methodNotFound, invalidParams or unsupported")
	f.StringVar(&s.AnswerVersion, "answer-version", "", "answer initialize with this `version`, whatever was asked")
	f.BoolVar(&s.StringIDs, "string-ids", false, "give number ids back as strings")

	// What it lists.
	f.IntVar(&o.tools, "tools", 0, "list `n` tools in place of the built-in ones")
	f.IntVar(&s.PageSize, "page-size", 0, "list `n` tools a page")
	f.StringVar(&o.cursors, "cursors", "", "how pages are named: `how` is same, new, aba (all without an end), empty, null or number")
	f.IntVar(&o.nameBytes, "name-bytes", 0, "list two tools whose names have `n` bytes and differ in the last")
	f.BoolVar(&o.oddSchemas, "odd-schemas", false, "list tools whose input schema is {}, null, missing, anyOf, a type list, true, and one that is right")
	f.BoolVar(&o.refSchemas, "ref-schemas", false, "list tools whose input schema has local, property and recursive $ref")
	f.BoolVar(&s.NoTools, "no-tools", false, "have no tools capability")
	f.DurationVar(&s.ListDelay, "list-delay", 0, "answer tools/list after this `duration`")
	f.IntVar(&s.ListChanged, "list-changed", 0, "announce a changed list while each of the first `n` tools/list is being answered")

	// What calls do.
	f.DurationVar(&s.CallDelay, "call-delay", 0, "begin each call after this `duration`")

	// Over HTTP.
	f.StringVar(&o.http, "http", "", "serve streamable HTTP on this `address` (127.0.0.1:0 takes a free port) and print the URL")
	f.StringVar(&o.httpTLS, "http-tls", "", "serve HTTPS with an authority of its own, whose certificate is written to this `file`")
	f.BoolVar(&o.httpSSE, "http-sse", false, "speak the HTTP+SSE of 2024-11-05")
	f.BoolVar(&o.httpJSON, "http-json", false, "answer with JSON documents, never with event streams")
	f.IntVar(&o.httpGet, "http-get", 0, "refuse GET with this `status`")
	f.IntVar(&o.httpStatus, "http-status", 0, "refuse every POST with this `status`")
	f.StringVar(&o.httpNewline, "http-newline", "crlf", "end lines of event streams with `which`: lf, crlf or cr")
	f.BoolVar(&o.httpBytes, "http-bytes", false, "write event streams one byte at a time")
	f.IntVar(&o.httpExpire, "http-expire", 0, "forget a session after `n` calls")
	f.BoolVar(&o.httpOneSession, "http-one-session", false, "refuse initialize as \"already initialized\" until the last session was deleted")
	f.BoolVar(&o.httpCut, "http-cut", false, "carry out a call and close its connection without an answer")
	f.BoolVar(&o.http401, "http-401", false, "refuse everything with 401 and name metadata that is never answered")
}

// complete turns the flags into a script, or says which of them is wrong.
func (o *faultFlags) complete(f *pflag.FlagSet) error {
	s := &o.script
	for _, flag := range []string{"start-delay", "initialize-delay", "list-delay", "call-delay"} {
		if d, err := f.GetDuration(flag); err != nil || d < 0 {
			return usageError("--%s must not be negative", flag)
		}
	}
	for _, flag := range []string{"stderr-bytes", "tools", "page-size", "name-bytes", "list-changed", "http-expire"} {
		if n, err := f.GetInt(flag); err != nil || n < 0 || n > 1<<30 {
			return usageError("--%s must be from 0 to %d", flag, 1<<30)
		}
	}
	for _, c := range []struct {
		flag, value string
		known       []string
	}{
		{"discover", o.discover, []string{"", "exit", "silence", "methodNotFound", "invalidParams", "unsupported"}},
		{"cursors", o.cursors, []string{"", "same", "new", "aba", "empty", "null", "number"}},
		{"http-newline", o.httpNewline, []string{"lf", "crlf", "cr"}},
	} {
		if !slices.Contains(c.known, c.value) {
			return usageError("--%s knows no %q, but %s", c.flag, c.value, strings.TrimPrefix(strings.Join(c.known, ", "), ", "))
		}
	}
	if s.Crashes > 0 && s.StateFile == "" {
		return usageError("--crashes %d needs --state: each process must know how many came before it", s.Crashes)
	}
	if o.http == "" {
		var stray string
		f.Visit(func(one *pflag.Flag) {
			if strings.HasPrefix(one.Name, "http-") {
				stray = one.Name
			}
		})
		if stray != "" {
			return usageError("--%s needs --http", stray)
		}
	}
	s.Discover, s.Cursors = mcptest.Discover(o.discover), mcptest.Cursors(o.cursors)
	switch {
	case o.modern:
		s.Versions = []string{mcptest.Modern}
	case o.dual:
		s.Versions = append([]string{mcptest.Modern}, mcptest.Legacy...)
	case o.httpSSE:
		s.Versions = []string{"2024-11-05"}
	}
	if o.dirty || o.dirtyLate {
		s.Noise, s.NoiseLate = mcptest.DirtyLines(), o.dirtyLate
	}
	if o.dirty {
		s.Banner = mcptest.DirtyLines()
	}
	if o.exitAtStart != noExit {
		s.ExitAtStart = &o.exitAtStart
	}
	if o.exitAtInit != noExit {
		s.ExitAtInitialize = &o.exitAtInit
	}
	switch {
	case o.tools > 0:
		s.Tools = mcptest.NumberedTools(o.tools)
	case o.nameBytes > 0:
		s.Tools = mcptest.LongNamedTools(2, o.nameBytes)
	case o.oddSchemas:
		s.Tools = mcptest.OddSchemas()
	case o.refSchemas:
		s.Tools = mcptest.RefSchemas()
	}
	return nil
}

// serveHTTP serves until stdin ends or a signal comes. It prints one line, the URL.
func (o *faultFlags) serveHTTP(cmd *cobra.Command) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	listener, err := net.Listen("tcp", o.http)
	if err != nil {
		return fmt.Errorf("fault-server cannot listen on %s: %w", o.http, err)
	}
	if o.httpTLS != "" {
		if listener, err = secure(listener, o.httpTLS); err != nil {
			return err
		}
	}
	h := mcptest.NewHTTPOn(listener, o.script)
	h.JSON, h.SSE, h.NoGet, h.Status = o.httpJSON, o.httpSSE, o.httpGet, o.httpStatus
	h.Newline, h.ByteByByte = map[string]string{"lf": "\n", "crlf": "\r\n", "cr": "\r"}[o.httpNewline], o.httpBytes
	h.ExpireAfter, h.OneSession, h.Cut, h.Unauthorized = o.httpExpire, o.httpOneSession, o.httpCut, o.http401
	url := h.URL
	if o.httpTLS != "" {
		url = "https" + strings.TrimPrefix(url, "http")
	}
	h.Serve()
	defer h.Close()
	fmt.Fprintln(cmd.OutOrStdout(), url)
	ctx, over := context.WithCancel(ctx)
	go func() { // a test that dies takes the server with it
		defer over()
		buffer := make([]byte, 512)
		for {
			if _, err := cmd.InOrStdin().Read(buffer); err != nil {
				return
			}
		}
	}()
	<-ctx.Done()
	return nil
}

// secure puts TLS on a listener, with a certificate that only caFile vouches for.
func secure(l net.Listener, caFile string) (net.Listener, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, err
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mcprt fault-server"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.ParseIP(host)},
	}
	raw, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o644); err != nil {
		return nil, err
	}
	return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}), nil
}
