// Package manual makes the manual pages: mcprt(1) and its commands from the command
// line tool's own help, libmcprt(3) from the C header. So there is one place that says
// what a flag or a function does; `make man` writes docs/man again.
package manual

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// date is that of the interface, not of a build: a page must not change because a day has passed.
var date = time.Date(2026, time.December, 1, 0, 0, 0, 0, time.UTC)

// Commands gives the pages of a command and of all below it, by file name.
func Commands(root *cobra.Command, version string) (map[string]string, error) {
	pages := map[string]string{}
	root.InitDefaultCompletionCmd()
	var walk func(*cobra.Command) error
	walk = func(cmd *cobra.Command) error {
		if !cmd.IsAvailableCommand() && cmd.HasParent() || cmd.IsAdditionalHelpTopicCommand() {
			return nil
		}
		cmd.DisableAutoGenTag = true
		cmd.Long = keepTables(cmd.Long + commands(cmd))
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
		var page strings.Builder
		header := &doc.GenManHeader{Title: strings.ToUpper(name), Section: "1", Date: &date, Source: "mcprt " + version, Manual: "mcprt"}
		if err := doc.GenMan(cmd, header, &page); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		pages[name+".1"] = page.String()
		for _, below := range cmd.Commands() {
			if err := walk(below); err != nil {
				return err
			}
		}
		return nil
	}
	return pages, walk(root)
}

// commands lists what is below a command, which the pages else name only in SEE ALSO.
func commands(cmd *cobra.Command) string {
	var list strings.Builder
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			fmt.Fprintf(&list, "  %-*s  %s\n", len("fault-server"), below.Name(), below.Short)
		}
	}
	if list.Len() == 0 {
		return ""
	}
	return "\n\nCommands:\n" + list.String()
}

// keepTables sets lines that are indented as they are, which Markdown would run together.
func keepTables(text string) string {
	var out []string
	inTable := false
	for _, line := range strings.Split(text, "\n") {
		indented := strings.HasPrefix(line, "  ")
		if indented && !inTable {
			out = append(out, "")
		}
		if indented {
			line = "    " + strings.TrimLeft(line, " ")
		}
		inTable = indented
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

var (
	section = regexp.MustCompile(`^/\* -+ (.*?) -+ \*/$`)
	rule    = regexp.MustCompile(`^ \*  (\S+)\s+(\S.*)$`)
	more    = regexp.MustCompile(`^ \* {12}(\S.*)$`)
)

// Header gives the page of the C library: the header's comments as text, its
// declarations as they are.
func Header(w io.Writer, header, version string) {
	fmt.Fprintf(w, ".TH \"LIBMCPRT\" \"3\" \"%s\" \"mcprt %s\" \"mcprt\"\n", date.Format("Jan 2006"), version)
	fmt.Fprint(w, `.SH NAME
libmcprt \- MCP client runtime: discover, connect, call and end MCP servers
.SH SYNOPSIS
.nf
.B #include <mcprt.h>
.PP
\fBcc\fP program.c \fB$(pkg-config --cflags --libs mcprt)\fP
.fi
.SH DESCRIPTION
One manager
.RB ( mcprt_open )
finds the MCP servers of a project, starts them in parallel, offers their tools, calls them and ends them.
Requests and replies are JSON; docs/options.md of the source has each member.
The command line tool
.BR mcprt (1)
does the same from a shell.
.SH RULES FOR EVERY FUNCTION
`)
	lines := strings.Split(header, "\n")
	at := 0
	for ; at < len(lines) && strings.TrimSpace(lines[at]) != "*/"; at++ {
		if m := rule.FindStringSubmatch(lines[at]); m != nil && len(lines[at])-len(m[2]) == 14 {
			fmt.Fprintf(w, ".TP\n.B %s\n%s\n", escape(m[1]), escape(m[2]))
		} else if m := more.FindStringSubmatch(lines[at]); m != nil {
			fmt.Fprintln(w, escape(m[1]))
		}
	}
	for ; at < len(lines) && !section.MatchString(lines[at]); at++ {
	}
	for ; at < len(lines) && !strings.HasPrefix(lines[at], "#ifdef __cplusplus"); at++ {
		line := lines[at]
		switch {
		case section.MatchString(line):
			fmt.Fprintf(w, ".SH %s\n", strings.ToUpper(escape(section.FindStringSubmatch(line)[1])))
		case strings.HasPrefix(line, "/*"):
			fmt.Fprintln(w, ".PP")
			for {
				text := strings.TrimSpace(strings.TrimPrefix(strings.TrimSuffix(strings.TrimSpace(lines[at]), "*/"), "/*"))
				fmt.Fprintln(w, escape(strings.TrimSpace(strings.TrimPrefix(text, "*"))))
				if strings.HasSuffix(strings.TrimSpace(lines[at]), "*/") {
					break
				}
				at++
			}
		case strings.TrimSpace(line) != "":
			fmt.Fprintln(w, ".PP\n.nf\n.ft CR")
			for ; at < len(lines) && strings.TrimSpace(lines[at]) != "" && !strings.HasPrefix(lines[at], "/*"); at++ {
				fmt.Fprintln(w, escape(strings.TrimPrefix(lines[at], "MCPRT_API ")))
			}
			at--
			fmt.Fprintln(w, ".ft\n.fi")
		}
	}
	fmt.Fprint(w, ".SH SEE ALSO\n.BR mcprt (1)\n")
}

// escape keeps roff from reading a line as its own: a backslash, and a control character at the start.
func escape(line string) string {
	line = strings.ReplaceAll(line, `\`, `\e`)
	line = strings.ReplaceAll(line, "-", `\-`)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	return line
}
