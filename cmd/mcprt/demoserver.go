package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"log"
	"math"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/spf13/cobra"
)

// exitDemoFailed is the exit status of --fail-start.
const exitDemoFailed = 3

// demoOptions are the flags of demo-server.
type demoOptions struct {
	name             string
	startDelay       time.Duration
	listChangedAfter time.Duration
	failStart        string
}

func demoServerCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo-server",
		Short: "Run a small MCP server on stdin and stdout",
		Long: `Run a small but real MCP server on stdin and stdout, to try a client with.

Tools: echo, add, slow (takes a while, reports progress, can be cancelled),
image (a PNG), fail (reports its own failure). Nothing but MCP messages is
written to stdout. The server ends when stdin closes or on SIGTERM or SIGINT.`,
		Example: `  mcprt demo-server --start-delay 3s
  {"mcpServers": {"demo": {"command": "mcprt", "args": ["demo-server"]}}}`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.startDelay < 0 || o.listChangedAfter < 0 {
				return usageError("a duration of demo-server must not be negative")
			}
			return serveDemo(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "mcprt-demo", "server `name` to report")
	f.DurationVar(&o.startDelay, "start-delay", 0, "answer nothing before this `duration` has passed, as a slow start does")
	f.DurationVar(&o.listChangedAfter, "list-changed-after", 0, "add the tool \"late\" after this `duration` and announce it")
	f.StringVar(&o.failStart, "fail-start", "", "print this `reason` on stderr and exit with status 3")
	return cmd
}

// serveDemo runs the server until in ends or the process is told to stop.
func serveDemo(ctx context.Context, o demoOptions, in io.Reader, out, errOut io.Writer) error {
	if o.failStart != "" {
		return &exitError{code: exitDemoFailed, message: o.failStart}
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()

	// Requests wait in a hook, not before the read loop: so the end of stdin and a
	// signal are noticed while the start still "takes long".
	started := make(chan struct{})
	time.AfterFunc(o.startDelay, func() { close(started) })
	hooks := &server.Hooks{}
	hooks.AddBeforeAny(func(ctx context.Context, _ any, _ mcp.MCPMethod, _ any) {
		select {
		case <-started:
		case <-ctx.Done():
		}
	})

	s := server.NewMCPServer(o.name, version, server.WithToolCapabilities(true), server.WithRecovery(), server.WithHooks(hooks))
	for _, t := range demoTools(s) {
		s.AddTool(t.Tool, t.Handler)
	}
	if o.listChangedAfter > 0 {
		timer := time.AfterFunc(o.listChangedAfter, func() {
			s.AddTool(mcp.NewTool("late", append(pure("Late"), mcp.WithDescription("Appeared after the server had started."))...), lateTool)
		})
		defer timer.Stop()
	}

	stdio := server.NewStdioServer(s)
	for _, option := range []server.StdioOption{
		server.WithErrorLogger(log.New(errOut, o.name+": ", 0)),
		server.WithWorkerPoolSize(100), // tool calls wait (slow), so few workers would queue behind each other
		server.WithQueueSize(10000),
	} {
		option(stdio)
	}
	err := stdio.Listen(ctx, in, out)
	if err == nil || errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("demo-server could not go on reading or writing MCP messages: %w", err)
}

// pure gives the annotations that hold for every tool here: nothing outside the
// call is read or changed, so it may be repeated.
func pure(title string) []mcp.ToolOption {
	return []mcp.ToolOption{
		mcp.WithTitleAnnotation(title),
		mcp.WithReadOnlyHintAnnotation(true),
		mcp.WithDestructiveHintAnnotation(false),
		mcp.WithIdempotentHintAnnotation(true),
		mcp.WithOpenWorldHintAnnotation(false),
	}
}

func demoTools(s *server.MCPServer) []server.ServerTool {
	tool := func(name, title, description string, handler server.ToolHandlerFunc, options ...mcp.ToolOption) server.ServerTool {
		options = append(append(pure(title), mcp.WithDescription(description)), options...)
		return server.ServerTool{Tool: mcp.NewTool(name, options...), Handler: handler}
	}
	return []server.ServerTool{
		tool("echo", "Echo", "Return the text that was given.", echoTool,
			mcp.WithString("text", mcp.Required(), mcp.Description("what to return"))),
		tool("add", "Add", "Add two numbers.", addTool,
			mcp.WithNumber("a", mcp.Required()), mcp.WithNumber("b", mcp.Required()),
			mcp.WithRawOutputSchema([]byte(`{"type":"object","properties":{"sum":{"type":"number"}},"required":["sum"]}`))),
		tool("slow", "Slow", "Wait, reporting progress, then return. A cancelled call stops at once.", slowTool(s),
			mcp.WithInteger("ms", mcp.Description("how long to wait, in milliseconds"), mcp.DefaultNumber(1000), mcp.Min(0), mcp.Max(maxSlowMs)),
			mcp.WithInteger("steps", mcp.Description("in how many steps; each but the last is reported as progress"), mcp.DefaultNumber(10), mcp.Min(1), mcp.Max(maxSlowSteps))),
		tool("image", "Image", "Return a small picture, a square PNG.", imageTool,
			mcp.WithInteger("size", mcp.Description("width and height in pixels"), mcp.DefaultNumber(64), mcp.Min(1), mcp.Max(maxImageSize))),
		tool("fail", "Fail", "Report a failure, as a tool does that could not do its work.", failTool,
			mcp.WithString("message", mcp.Description("what to report"))),
	}
}

const (
	maxSlowMs    = 3_600_000
	maxSlowSteps = 1000
	maxImageSize = 1024
)

func echoTool(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	text, err := r.RequireString("text")
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	return mcp.NewToolResultText(text), nil
}

func addTool(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	a, errA := r.RequireFloat("a")
	b, errB := r.RequireFloat("b")
	if err := errors.Join(errA, errB); err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	sum := a + b
	if math.IsInf(sum, 0) {
		return mcp.NewToolResultError("the sum is too large for a number"), nil
	}
	return mcp.NewToolResultStructured(map[string]float64{"sum": sum}, strconv.FormatFloat(sum, 'f', -1, 64)), nil
}

// slowTool waits in equal steps and reports each one to a caller that asked for it.
func slowTool(s *server.MCPServer) server.ToolHandlerFunc {
	return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		ms, steps := r.GetInt("ms", 1000), r.GetInt("steps", 10)
		if ms < 0 || ms > maxSlowMs || steps < 1 || steps > maxSlowSteps {
			return mcp.NewToolResultErrorf("ms must be 0 to %d and steps 1 to %d", maxSlowMs, maxSlowSteps), nil
		}
		start := time.Now()
		for step := 1; step <= steps; step++ {
			until := start.Add(time.Duration(ms) * time.Millisecond * time.Duration(step) / time.Duration(steps))
			select {
			case <-time.After(time.Until(until)):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			// The last step is reported by the result itself: a report sent right
			// before it could arrive after it, which MCP forbids.
			if step == steps || r.Params.Meta == nil || r.Params.Meta.ProgressToken == nil {
				continue
			}
			// A report that finds no room is lost; the call itself goes on.
			_ = s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{
				"progressToken": r.Params.Meta.ProgressToken,
				"progress":      step,
				"total":         steps,
				"message":       fmt.Sprintf("step %d of %d", step, steps),
			})
		}
		return mcp.NewToolResultText(fmt.Sprintf("waited %d ms", ms)), nil
	}
}

func imageTool(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	size := r.GetInt("size", 64)
	if size < 1 || size > maxImageSize {
		return mcp.NewToolResultErrorf("size must be 1 to %d", maxImageSize), nil
	}
	picture := image.NewRGBA(image.Rect(0, 0, size, size))
	for y := range size {
		for x := range size {
			picture.Set(x, y, color.RGBA{R: uint8(x * 255 / size), G: uint8(y * 255 / size), B: 160, A: 255})
		}
	}
	var encoded bytes.Buffer
	if err := png.Encode(&encoded, picture); err != nil {
		return nil, err
	}
	return mcp.NewToolResultImage(fmt.Sprintf("a %d x %d gradient", size, size),
		base64.StdEncoding.EncodeToString(encoded.Bytes()), "image/png"), nil
}

func failTool(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultError(r.GetString("message", "this tool always fails")), nil
}

func lateTool(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText("better late than never"), nil
}
