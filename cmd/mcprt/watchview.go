package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/mcprt/mcprt/core"
)

const (
	refreshEvery = 500 * time.Millisecond
	maxLog       = 500 // events kept for the view
)

// watchTerminal shows the live view until q or an interrupt.
func watchTerminal(s *session, feed *eventFeed) error {
	view := &watchView{s: s, width: s.stdout.width, busy: "connecting"}
	program := tea.NewProgram(view, tea.WithContext(s.ctx), tea.WithoutSignalHandler())
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case event := <-feed.events:
				program.Send(readEvent(event, time.Now()))
			}
		}
	}()
	_, err := program.Run()
	if err != nil && !errors.Is(err, tea.ErrProgramKilled) && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("the terminal could not be used: %w; --json prints events instead", err)
	}
	return view.failed
}

// watchView is the state of the live view; bubbletea alone changes it.
type watchView struct {
	s             *session
	width, height int
	servers       []serverView
	marked        string // the name of the marked server
	log           []eventLine
	busy          string // what is waited for; "": nothing
	said          string // how the last command ended
	failed        error  // what ended the view
}

type (
	refreshed struct {
		servers []serverView
		err     error
	}
	tick struct{}
	// ended is the end of a command that the view started.
	ended struct {
		said string
		err  error
	}
)

func (v *watchView) Init() tea.Cmd {
	return tea.Batch(v.connect(map[string]any{"tools": false}, ""), v.refresh)
}

// connect starts servers in the background; its errors are those of the servers, which the table shows.
func (v *watchView) connect(request map[string]any, said string) tea.Cmd {
	return func() tea.Msg {
		_, err := v.s.do(v.s.ctx, core.VerbConnect, request)
		return ended{said, err}
	}
}

func (v *watchView) refresh() tea.Msg {
	servers, err := v.s.serversNow(v.s.ctx)
	return refreshed{servers, err}
}

func (v *watchView) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		v.width, v.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return v, v.key(msg.String())
	case eventLine:
		if msg.text != "" {
			v.log = append(v.log, msg)
			v.log = v.log[max(0, len(v.log)-maxLog):]
		}
	case refreshed:
		if msg.err != nil {
			v.failed = msg.err
			return v, tea.Quit
		}
		v.servers = msg.servers
		if v.index() < 0 && len(v.servers) > 0 {
			v.marked = v.servers[0].Name
		}
		return v, tea.Tick(refreshEvery, func(time.Time) tea.Msg { return tick{} })
	case tick:
		return v, v.refresh
	case ended:
		v.busy, v.said = "", msg.said
		if msg.err != nil {
			v.said = msg.err.Error()
		}
	}
	return v, nil
}

func (v *watchView) key(key string) tea.Cmd {
	switch key {
	case "q", "ctrl+c", "esc":
		return tea.Quit
	case "up", "k":
		v.mark(-1)
	case "down", "j":
		v.mark(+1)
	case "r", "c":
		if v.busy != "" {
			return nil
		}
		if key == "r" {
			v.busy = "reloading"
			return func() tea.Msg {
				_, err := v.s.do(v.s.ctx, core.VerbReload, map[string]any{"tools": false})
				return ended{"reloaded", err}
			}
		}
		if v.marked != "" {
			v.busy = "connecting " + v.marked
			return v.connect(map[string]any{"only": []string{v.marked}, "restart": true, "tools": false}, "connected "+v.marked+" anew")
		}
	}
	return nil
}

// index gives the place of the marked server in the table, or -1.
func (v *watchView) index() int {
	for i, server := range v.servers {
		if server.Name == v.marked {
			return i
		}
	}
	return -1
}

func (v *watchView) mark(by int) {
	if i := v.index() + by; i >= 0 && i < len(v.servers) {
		v.marked = v.servers[i].Name
	}
}

func (v *watchView) View() tea.View {
	view := tea.NewView(v.draw())
	view.AltScreen = true
	view.WindowTitle = "mcprt watch"
	return view
}

// draw fills the screen: the servers, the latest events in what is left, one line of keys.
func (v *watchView) draw() string {
	var screen strings.Builder
	p := &painter{Writer: &screen, colored: v.s.stdout.colored, width: v.width}
	rows := make([][]cell, 0, len(v.servers))
	ready, tools := 0, 0
	for _, server := range v.window() {
		mark := cell{" ", ""}
		if server.Name == v.marked {
			mark = cell{">", bold}
		}
		problem := ""
		if server.Error != nil && server.State != "ready" {
			problem = server.Error.Message
		}
		rows = append(rows, []cell{mark, {server.Name, ""}, {server.State, stateStyle(server.State)}, {fmt.Sprint(server.ToolCount), ""}, {problem, ""}})
	}
	for _, server := range v.servers {
		if server.State == "ready" {
			ready++
		}
		tools += server.ToolCount
	}
	fmt.Fprintf(p, "%s  %d of %d servers ready, %d tools\n\n", p.paint(bold, "mcprt watch"), ready, len(v.servers), tools)
	if len(rows) > 0 {
		p.table([]string{"", "NAME", "STATE", "TOOLS", "PROBLEM"}, rows)
		if hidden := len(v.servers) - len(rows); hidden > 0 {
			fmt.Fprintln(p, p.paint(faint, fmt.Sprintf("  and %d more", hidden)))
		}
	}
	fmt.Fprintln(p)
	room := max(0, v.height-strings.Count(screen.String(), "\n")-2)
	rows = rows[:0]
	for _, line := range v.log[max(0, len(v.log)-max(0, room-1)):] {
		rows = append(rows, []cell{{line.at.Format(time.TimeOnly), faint}, {line.server, ""}, {line.text, line.style}})
	}
	if room > 1 && len(rows) > 0 {
		p.table([]string{"TIME", "SERVER", "EVENT"}, rows)
	}
	status := v.said
	if v.busy != "" {
		status = v.busy + " …"
	}
	if drawn := strings.Count(screen.String(), "\n"); v.height-drawn > 1 {
		fmt.Fprint(p, strings.Repeat("\n", v.height-drawn-1))
	}
	fmt.Fprint(p, p.paint(faint, cut("q quit  r reload  c connect anew  ↑↓ mark  "+oneLine(status), v.width)))
	return screen.String()
}

// window gives the servers that fit into half of the screen, the marked one among them.
func (v *watchView) window() []serverView {
	room := max(3, v.height/2-4)
	if len(v.servers) <= room {
		return v.servers
	}
	first := min(max(0, v.index()-room/2), len(v.servers)-room)
	return v.servers[first : first+room]
}
