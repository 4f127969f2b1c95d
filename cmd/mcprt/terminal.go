package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"

	"github.com/mcprt/mcprt/core/config"
)

// style is an SGR code of a terminal.
type style string

const (
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// painter writes text for people. Without colour it is plain text.
type painter struct {
	io.Writer
	colored bool
	width   int   // of the terminal; 0: no terminal, lines are not cut
	lost    error // the first failure to write
}

func (p *painter) Write(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	if p.lost == nil {
		p.lost = err
	}
	return n, err
}

func newPainter(w io.Writer, color string) (*painter, error) {
	p := &painter{Writer: w}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		env := config.ProcessEnv()
		p.colored = env.Value("NO_COLOR") == "" && env.Value("TERM") != "dumb"
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			p.width = width
		}
	}
	switch color {
	case "auto":
	case "always":
		p.colored = true
	case "never":
		p.colored = false
	default:
		return nil, usageError("--color must be auto, always or never, not %q", color)
	}
	return p, nil
}

func (p *painter) paint(s style, text string) string {
	if !p.colored || s == "" || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// text prints a server's text: as it is into a file or a pipe, harmless on a terminal.
func (p *painter) text(s string) {
	if p.width > 0 {
		s = printable(s)
	}
	if !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	fmt.Fprint(p, s)
}

// cell is one field of a table.
type cell struct {
	text  string
	style style
}

// table prints rows with aligned columns under a header, the last column cut to the
// terminal's width. Cells come from servers, so each is made one harmless line.
func (p *painter) table(header []string, rows [][]cell) {
	for _, line := range p.layout(header, nil, rows) {
		fmt.Fprintln(p, line)
	}
}

// layout gives the lines of a table, the header's first. The columns of right, by
// index, are put to the right, as numbers are.
func (p *painter) layout(header []string, right []int, rows [][]cell) []string {
	widths := make([]int, len(header))
	all := [][]cell{make([]cell, len(header))}
	for i, title := range header {
		all[0][i] = cell{title, bold}
	}
	all = append(all, rows...)
	for _, row := range all {
		for i := range row {
			row[i].text = oneLine(row[i].text)
			widths[i] = max(widths[i], runewidth.StringWidth(row[i].text))
		}
	}
	lines := make([]string, 0, len(all))
	for _, row := range all {
		var line strings.Builder
		used := 0
		for i, c := range row {
			if i == len(row)-1 {
				if p.width > 0 {
					c.text = cut(c.text, max(p.width-used, 10))
				}
				line.WriteString(p.paint(c.style, c.text))
				continue
			}
			gap := widths[i] - runewidth.StringWidth(c.text) + 2
			used += widths[i] + 2
			if slices.Contains(right, i) {
				line.WriteString(strings.Repeat(" ", gap-2) + p.paint(c.style, c.text) + "  ")
				continue
			}
			line.WriteString(p.paint(c.style, c.text) + strings.Repeat(" ", gap))
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	return lines
}

// spinner shows on a terminal that something is waited for; elsewhere it is silent.
type spinner struct {
	out  *painter
	mu   sync.Mutex
	text string
	stop chan struct{}
	done chan struct{}
}

func newSpinner(out *painter, text string) *spinner {
	s := &spinner{out: out, text: text, stop: make(chan struct{}), done: make(chan struct{})}
	if out.width == 0 {
		close(s.done)
		return s
	}
	go s.turn()
	return s
}

func (s *spinner) turn() {
	defer close(s.done)
	defer func() { fmt.Fprint(s.out, "\r\x1b[K") }()
	frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	start := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-s.stop:
			return
		case <-tick.C:
			s.mu.Lock()
			line := fmt.Sprintf("%c %s  %.1f s", frames[i%len(frames)], s.text, time.Since(start).Seconds())
			s.mu.Unlock()
			fmt.Fprintf(s.out, "\r\x1b[K%s", cut(line, s.out.width-1))
		}
	}
}

func (s *spinner) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = oneLine(text)
}

// end removes the spinner; nothing of it is on the terminal after that.
func (s *spinner) end() {
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
	<-s.done
}

// cut shortens one line to width columns; 0 leaves it.
func cut(line string, width int) string {
	if width <= 0 {
		return line
	}
	return runewidth.Truncate(line, width, "…")
}
