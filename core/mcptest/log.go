package mcptest

import (
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/goccy/go-json"
)

// Counts is what the servers of one Memory were asked, over all their connections.
type Counts struct {
	Dials       int // connections opened
	Live        int // connections now open
	MaxLive     int // the most that were open at once
	Discovers   int
	Initializes int
	Initialized int // notifications/initialized
	Lists       int // tools/list requests
	Calls       map[string]int
	Cancelled   []string // raw ids in notifications/cancelled
	Received    []string // every message, in the order of arrival
}

// Log collects Counts; a child, and a server with a LogFile, writes its events to a file, and
// keeps no messages.
type Log struct {
	mu     sync.Mutex
	counts Counts
	file   *os.File
}

// Counts gives a copy of what was counted so far.
func (l *Log) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts
	c.Calls = maps.Clone(c.Calls)
	c.Cancelled = slices.Clone(c.Cancelled)
	c.Received = slices.Clone(c.Received)
	return c
}

func (l *Log) add(change func(*Counts)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.counts)
}

// keep is add of what grows without end: where it goes to a file it is not held in memory.
func (l *Log) keep(change func(*Counts)) {
	if l.file == nil {
		l.add(change)
	}
}

func (l *Log) received(line []byte) {
	l.keep(func(c *Counts) { c.Received = append(c.Received, string(line)) })
	l.event("recv", json.RawMessage(slices.Clone(line)))
}

func (l *Log) called(tool string) {
	l.add(func(c *Counts) {
		if c.Calls == nil {
			c.Calls = map[string]int{}
		}
		c.Calls[tool]++
	})
}

func (l *Log) cancelled(id string) {
	l.keep(func(c *Counts) { c.Cancelled = append(c.Cancelled, id) })
	l.event("cancelled", id)
}

func (l *Log) opened() {
	l.add(func(c *Counts) {
		c.Dials++
		c.Live++
		c.MaxLive = max(c.MaxLive, c.Live)
	})
}

func (l *Log) closed() { l.add(func(c *Counts) { c.Live-- }) }

// event appends one line to the child's log file. One write per line: lines of
// several processes with one file do not mix.
func (l *Log) event(name string, data any) {
	if l.file == nil {
		return
	}
	line, err := json.Marshal(map[string]any{"pid": os.Getpid(), "event": name, "data": data})
	if err != nil {
		return // a message that is no JSON: its receiver answers with a parse error
	}
	l.file.Write(append(line, '\n'))
}
