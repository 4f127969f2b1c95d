package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-json"
	"github.com/spf13/cobra"

	"github.com/mcprt/mcprt/core/trace"
)

func traceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Show what a flight recorder has written",
		Long: `Show a file that the option "trace" of the library, or --trace of other commands,
has recorded. docs/trace.md describes what is in it.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(traceShowCommand(), traceHTMLCommand())
	return cmd
}

// oneFile is the argument of the trace commands.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError("%s takes one file; see %s --help", cmd.CommandPath(), cmd.CommandPath())
	}
	return nil
}

// traceFilter chooses records.
type traceFilter struct {
	servers, methods []string
	failed           bool
	limit            int
}

func (f *traceFilter) register(cmd *cobra.Command, limit int) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&f.servers, "server", nil, "only this `server`; may be repeated")
	flags.StringArrayVar(&f.methods, "method", nil, "only messages of this `method`, such as tools/call or notifications/*; may be repeated")
	flags.BoolVar(&f.failed, "failed", false, "only what failed")
	flags.IntVar(&f.limit, "limit", limit, "at most the last `number` of messages; 0: all")
}

// read gives the trace with what the filter lets pass.
func (f *traceFilter) read(file string) (*trace.Trace, error) {
	if f.limit < 0 {
		return nil, usageError("--limit must not be negative")
	}
	for _, pattern := range f.methods {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, usageError("--method %s is no pattern", pattern)
		}
	}
	t, err := trace.ReadFile(file, f.limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no file %s; a program records one with the option trace of open, this tool with --trace FILE", file)
	}
	if err != nil {
		return nil, err
	}
	t.Records = slices.DeleteFunc(t.Records, func(r trace.Record) bool { return !f.pass(&r) })
	return t, nil
}

func (f *traceFilter) pass(r *trace.Record) bool {
	if len(f.servers) > 0 && !slices.Contains(f.servers, r.Server) {
		return false
	}
	if len(f.methods) > 0 && !slices.ContainsFunc(f.methods, func(pattern string) bool {
		ok, _ := path.Match(pattern, r.Method)
		return ok && r.Type == trace.TypeMessage
	}) {
		return false
	}
	return !f.failed || failedRecord(r)
}

func failedRecord(r *trace.Record) bool {
	return r.Error != nil || r.Outcome != "" && r.Outcome != trace.OutcomeOK || r.Type == trace.TypeDropped
}

const shownMessages = 200_000

func traceShowCommand() *cobra.Command {
	var f traceFilter
	var wantJSON, payload bool
	var color string
	cmd := &cobra.Command{
		Use:   "show FILE",
		Short: "Print a trace, one line a record",
		Long: `Print a trace in the order of time. AT is in milliseconds since the first record,
TOOK in milliseconds. An arrow to the right is a message to the server.`,
		Example: `  mcprt trace show t.jsonl
  mcprt trace show t.jsonl --server files --method tools/call --payload
  mcprt trace show t.jsonl --failed --json | jq .error`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := newPainter(cmd.OutOrStdout(), color)
			if err != nil {
				return err
			}
			t, err := f.read(args[0])
			if err != nil {
				return err
			}
			if wantJSON {
				err = printRecords(p, t)
			} else {
				printTrace(p, t, payload)
			}
			if err == nil && p.lost != nil {
				err = fmt.Errorf("the output could not be written: %w", p.lost)
			}
			return err
		},
	}
	f.register(cmd, shownMessages)
	cmd.Flags().BoolVar(&payload, "payload", false, "print what the messages hold, too")
	cmd.Flags().BoolVar(&wantJSON, "json", false, "print the records as they are in the file")
	cmd.Flags().StringVar(&color, "color", "auto", "`when` to colour: auto (on a terminal, without NO_COLOR), always, never")
	return cmd
}

func printRecords(p *painter, t *trace.Trace) error {
	for _, r := range append([]trace.Record{t.Header}, t.Records...) {
		line, err := json.MarshalWithOption(&r, json.DisableHTMLEscape())
		if err != nil {
			return err
		}
		fmt.Fprintf(p, "%s\n", line)
	}
	return nil
}

// printTrace prints a table; with payloads the rows between two of them are one.
func printTrace(p *painter, t *trace.Trace, payload bool) {
	fmt.Fprintf(p, "%s\n", p.paint(faint, traceTitle(t)))
	for _, note := range traceNotes(t) {
		fmt.Fprintf(p, "%s\n", p.paint(yellow, note))
	}
	rows := make([][]cell, 0, len(t.Records))
	for i := range t.Records {
		rows = append(rows, traceRow(t, &t.Records[i]))
	}
	lines := p.layout([]string{"AT", "SERVER", "WHAT", "", "ID", "BYTES", "TOOK", ""}, []int{0, 4, 5, 6}, rows)
	fmt.Fprintln(p, lines[0])
	for i := range t.Records {
		fmt.Fprintln(p, lines[i+1])
		if text := payloadText(&t.Records[i]); payload && text != "" {
			for line := range strings.Lines(printable(text)) {
				fmt.Fprintf(p, "    %s\n", p.paint(faint, strings.TrimRight(line, "\n")))
			}
		}
	}
}

func traceTitle(t *trace.Trace) string {
	h := t.Header
	return fmt.Sprintf("mcprt %s, began %s, host process %d", oneLine(h.Mcprt), h.Time.UTC().Format("2006-01-02 15:04:05.000 MST"), h.PID)
}

// traceNotes say what is not there.
func traceNotes(t *trace.Trace) (notes []string) {
	if t.Missing {
		notes = append(notes, "The beginning is gone: the file was rotated more than once.")
	}
	if t.LeftOut > 0 {
		notes = append(notes, fmt.Sprintf("The first %d messages are left out; --limit 0 shows all.", t.LeftOut))
	}
	if t.Damaged > 0 {
		notes = append(notes, fmt.Sprintf("%d damaged lines are left out.", t.Damaged))
	}
	return notes
}

// sinceBegin is when r was, in milliseconds since the trace began.
func sinceBegin(t *trace.Trace, r *trace.Record) float64 {
	return float64(r.Time.Sub(t.Header.Time).Microseconds()) / 1000
}

func traceRow(t *trace.Trace, r *trace.Record) []cell {
	server := r.Server
	if r.Generation > 0 {
		server += fmt.Sprintf(" #%d", r.Generation)
	}
	row := []cell{{fmt.Sprintf("%.3f", sinceBegin(t, r)), faint}, {server, ""}, {}, {}, {}, {}, {}, {}}
	what, name, id, bytes, took, note := &row[2], &row[3], &row[4], &row[5], &row[6], &row[7]
	if r.DurationMs != nil {
		took.text = fmt.Sprintf("%.3f", *r.DurationMs)
	}
	note.text = r.Detail
	switch r.Type {
	case trace.TypeMessage:
		*what, name.text, id.text = cell{arrow(r) + " " + r.Kind, ""}, messageName(r), string(r.ID)
		if r.Bytes > 0 {
			bytes.text = fmt.Sprint(r.Bytes)
		}
		note.text = outcome(r)
	case trace.TypePhase:
		*what, name.text = cell{"phase", bold}, r.Phase
		if r.PID > 0 {
			note.text = strings.TrimSpace(fmt.Sprintf("pid %d %s", r.PID, r.Detail))
		}
	case trace.TypeState:
		*what, name.text = cell{"state", bold}, r.Previous+" → "+r.State
		if r.State == "ready" {
			name.style = green
		}
	case trace.TypeStart:
		*what, name.text, note.text = cell{"start", bold}, r.Transport, r.Target
	case trace.TypeDropped:
		*what, note.text = cell{"dropped", red}, fmt.Sprintf("%d records are missing here", r.Count)
	case trace.TypeEnd:
		*what, note.text = cell{"end", bold}, fmt.Sprintf("%d records, %d dropped", r.Count, r.Dropped)
	default:
		what.text = r.Type
	}
	if r.Error != nil {
		note.text = strings.TrimSpace(note.text + " " + r.Error.Code + ": " + r.Error.Message)
	}
	if failedRecord(r) {
		note.style = red
	}
	return row
}

func arrow(r *trace.Record) string {
	if r.Direction == "out" {
		return "→"
	}
	return "←"
}

func messageName(r *trace.Record) string {
	if r.Tool != "" {
		return r.Method + " " + r.Tool
	}
	return r.Method
}

// outcome says how a request ended, where that was not well.
func outcome(r *trace.Record) string {
	if r.Outcome == trace.OutcomeOK {
		return ""
	}
	return strings.ReplaceAll(r.Outcome, "_", " ")
}

// payloadText is what a message held, indented where all of it is there.
func payloadText(r *trace.Record) string {
	if len(r.Payload) == 0 {
		if r.PayloadText == "" {
			return ""
		}
		return r.PayloadText + "…"
	}
	text, err := json.MarshalIndent(r.Payload, "", "  ")
	if err != nil {
		return string(r.Payload)
	}
	return string(text)
}
