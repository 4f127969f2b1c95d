package main

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcprt/mcprt/core/trace"
)

var (
	//go:embed tracepage/page.html
	pageHTML string
	//go:embed tracepage/page.css
	pageCSS string
	//go:embed tracepage/page.js
	pageJS string
)

// How much one page holds: browsers get slow with more.
const (
	pageMessages = 5_000
	pageStarts   = 500
	pagePayloads = 16 << 20 // bytes
)

func traceHTMLCommand() *cobra.Command {
	var f traceFilter
	var out string
	cmd := &cobra.Command{
		Use:   "html FILE",
		Short: "Make one self-contained page of a trace",
		Long: `Make a page that shows a trace: the start-up as a waterfall, and a table of the
messages with filters. It is one file that loads nothing, from anywhere.`,
		Example: `  mcprt trace html t.jsonl -o t.html`,
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := f.read(args[0])
			if err != nil {
				return err
			}
			page, err := tracePage(t, filepath.Base(args[0]))
			if err != nil {
				return err
			}
			if out == "" || out == "-" {
				_, err = cmd.OutOrStdout().Write(page)
				return err
			}
			// As private as the trace itself.
			return os.WriteFile(out, page, 0o600)
		},
	}
	f.register(cmd, pageMessages)
	cmd.Flags().StringVarP(&out, "output", "o", "", "write the page to this `file` (default: stdout)")
	return cmd
}

// page is what the template shows.
type page struct {
	CSP      string
	Style    template.CSS
	Script   template.JS
	File     string
	Title    string
	Notes    []string
	Starts   []startRow // of the start-up
	Axis     []axisTick
	Overall  []startRow // the manager's own steps
	Later    []startRow // each on its own scale
	Phases   []string   // that occur, for the legend
	Messages []messageRow
	Servers  []string
	Methods  []string
	Failed   int
}

// startRow is one start of a server in a waterfall.
type startRow struct {
	Name   string
	Target string
	Result string // "ready", "failed", …
	Bad    bool
	Reason string
	At     string
	Bars   []bar
	Label  string // all of it as text, for who cannot see the picture
}

// bar is one step; X and W are percent of the picture.
type bar struct {
	Phase, Name, Title string
	X, W               string
	Bad                bool
	Took               string
	Note               string
}

type axisTick struct{ X, Text string }

type messageRow struct {
	At, Server, Generation, Arrow, Direction, Kind, Name, Method, ID, Took, Bytes, Outcome, Note, Payload string
	Bad                                                                                                   bool
}

// tracePage renders the page. All of the text comes from servers, so html/template
// escapes it, and what could turn the reading direction round is made visible first.
func tracePage(t *trace.Trace, file string) ([]byte, error) {
	tmpl, err := template.New("page").Funcs(template.FuncMap{"mark": phaseWord, "onAxis": onAxis, "alone": alone}).Parse(pageHTML)
	if err != nil {
		return nil, err
	}
	p := page{Style: template.CSS(pageCSS), Script: template.JS(pageJS), File: oneLine(file), Title: traceTitle(t), Notes: traceNotes(t),
		// Nothing may be loaded or sent, and no style or script runs but these two.
		CSP: fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'", sourceHash(pageCSS), sourceHash(pageJS))}
	p.startUp(t)
	p.messages(t)
	var b bytes.Buffer
	if err := tmpl.Execute(&b, &p); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func sourceHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// axisRow is a row and the lines behind it.
type axisRow struct {
	Row  startRow
	Axis []axisTick
}

func onAxis(row startRow, axis []axisTick) axisRow { return axisRow{row, axis} }

func alone(row startRow) axisRow { return axisRow{row, nil} }

// phaseWord is a phase for people.
func phaseWord(phase string) string { return strings.ReplaceAll(phase, "_", " ") }

// lifeOf is what one start of a server did.
type lifeOf struct {
	server    string
	gen       uint64
	began     time.Time
	target    string
	phases    []trace.Record
	outcome   *trace.Record // the state that ended connecting
	firstCall *trace.Record
}

// phaseOrder is that of a start, for the legend.
var phaseOrder = []string{trace.PhaseDiscover, trace.PhaseGate, trace.PhaseResolve, trace.PhaseWait, trace.PhaseSpawn, trace.PhaseDial,
	trace.PhaseProbe, trace.PhaseHandshake, trace.PhaseList, trace.PhaseFirstCall}

// startUp fills the waterfall: the starts that began before the first gate had ended
// share one scale; later ones have one each.
func (p *page) startUp(t *trace.Trace) {
	lives, overall := livesOf(t)
	var gateEnd time.Time
	for _, r := range overall {
		if end := r.Time.Add(r.Duration()); r.Phase == trace.PhaseGate && gateEnd.IsZero() {
			gateEnd = end
		}
	}
	if gateEnd.IsZero() && len(lives) > 0 {
		gateEnd = lives[0].began
	}
	first := slices.DeleteFunc(slices.Clone(lives), func(l *lifeOf) bool { return l.began.After(gateEnd) })
	later := slices.DeleteFunc(slices.Clone(lives), func(l *lifeOf) bool { return !l.began.After(gateEnd) })
	if extra := len(first) - pageStarts; extra > 0 {
		first = first[:pageStarts]
		p.Notes = append(p.Notes, fmt.Sprintf("%d more starts are left out of the waterfall.", extra))
	}
	if extra := len(later) - pageStarts; extra > 0 {
		later = later[extra:]
		p.Notes = append(p.Notes, fmt.Sprintf("The first %d of the later starts are left out.", extra))
	}
	s := scale{from: t.Header.Time}
	overall = slices.DeleteFunc(overall, func(r trace.Record) bool { return r.Time.After(gateEnd) })
	for _, r := range overall {
		s.cover(r.Time, r.Time.Add(r.Duration()))
	}
	for _, l := range first {
		s.coverLife(l)
	}
	for _, l := range first { // a first call long after the start must not squeeze the rest
		if f := l.firstCall; f != nil && f.Time.Add(f.Duration()).Sub(s.from) <= 3*s.to.Sub(s.from) {
			s.late = latest(s.late, f.Time.Add(f.Duration()))
		}
	}
	if s.late.After(s.to) {
		s.to = s.late
	}
	p.Axis = s.ticks()
	if len(overall) > 0 {
		row := startRow{Name: "all servers", At: "0 ms", Target: "what connect itself did"}
		for _, r := range overall {
			row.Bars = append(row.Bars, s.bar(&r))
		}
		row.Label = row.describe()
		p.Overall = append(p.Overall, row)
	}
	for _, l := range first {
		p.Starts = append(p.Starts, l.row(t, &s))
	}
	for _, l := range later {
		own := scale{from: l.began}
		own.coverLife(l)
		p.Later = append(p.Later, l.row(t, &own))
	}
	seen := map[string]bool{}
	for _, rows := range [][]startRow{p.Overall, p.Starts, p.Later} {
		for _, row := range rows {
			for _, b := range row.Bars {
				seen[b.Phase] = true
			}
		}
	}
	for _, phase := range phaseOrder {
		if seen[phase] {
			p.Phases = append(p.Phases, phase)
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// livesOf groups the steps by start, in the order of the starts' begins.
func livesOf(t *trace.Trace) (lives []*lifeOf, overall []trace.Record) {
	type key struct {
		server string
		gen    uint64
	}
	known := map[key]*lifeOf{}
	for _, r := range t.Records {
		if r.Server == "" {
			if r.Type == trace.TypePhase {
				overall = append(overall, r)
			}
			continue
		}
		k := key{r.Server, r.Generation}
		l := known[k]
		if l == nil {
			if r.Type != trace.TypeStart && !(r.Type == trace.TypeState && r.State == "connecting") {
				continue
			}
			l = &lifeOf{server: r.Server, gen: r.Generation, began: r.Time}
			known[k] = l
			lives = append(lives, l)
		}
		switch {
		case r.Type == trace.TypeStart:
			l.target = r.Target
		case r.Type == trace.TypeState && r.Previous == "connecting" && l.outcome == nil:
			l.outcome = &r
		case r.Type == trace.TypePhase && r.Phase == trace.PhaseFirstCall:
			l.firstCall = &r
		case r.Type == trace.TypePhase && r.Phase != trace.PhaseClose:
			l.phases = append(l.phases, r)
		}
	}
	return lives, overall
}

// scale maps times to a picture's width.
type scale struct{ from, to, late time.Time }

func (s *scale) cover(times ...time.Time) {
	for _, at := range times {
		if at.After(s.to) {
			s.to = at
		}
	}
}

func (s *scale) coverLife(l *lifeOf) {
	s.cover(l.began)
	for _, r := range l.phases {
		s.cover(r.Time.Add(r.Duration()))
	}
	if l.outcome != nil {
		s.cover(l.outcome.Time)
	}
}

func (s *scale) width() time.Duration { return max(s.to.Sub(s.from), time.Millisecond) }

// percent is a place in the picture; some room is left for the marks at both ends.
func (s *scale) percent(d time.Duration) float64 {
	return min(max(float64(d)/float64(s.width()), 0), 1) * 98
}

func (s *scale) ticks() (out []axisTick) {
	step := time.Millisecond
	for _, factor := range []time.Duration{2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000, 1_800_000, 3_600_000, 86_400_000} {
		if s.width() <= 6*step {
			break
		}
		step = factor * time.Millisecond
	}
	for at := time.Duration(0); at <= s.width() && len(out) < 20; at += step {
		out = append(out, axisTick{fmt.Sprintf("%.2f%%", s.percent(at)), short(at)})
	}
	return out
}

func (s *scale) bar(r *trace.Record) bar {
	from, took := r.Time.Sub(s.from), r.Duration()
	b := bar{Phase: r.Phase, Name: phaseWord(oneLine(r.Phase)), Took: short(took), Bad: r.Error != nil, Note: note(r), X: fmt.Sprintf("%.3f%%", s.percent(from))}
	if !slices.Contains(phaseOrder, r.Phase) { // a newer library's: it has no colour here
		b.Phase = "other"
	}
	b.W = fmt.Sprintf("%.3f%%", max(s.percent(from+took)-s.percent(from), 0.3))
	b.Title = fmt.Sprintf("%s: %s, from %s", b.Name, b.Took, short(from))
	if b.Note != "" {
		b.Title += " (" + b.Note + ")"
	}
	return b
}

func note(r *trace.Record) string {
	text := r.Detail
	if r.Error != nil {
		text = strings.TrimPrefix(text+", "+r.Error.Message, ", ")
	}
	return oneLine(text)
}

func (l *lifeOf) row(t *trace.Trace, s *scale) startRow {
	row := startRow{Name: oneLine(fmt.Sprintf("%s #%d", l.server, l.gen)), Target: oneLine(l.target), Result: "still starting", At: short(l.began.Sub(t.Header.Time))}
	for i := range l.phases {
		row.Bars = append(row.Bars, s.bar(&l.phases[i]))
	}
	if f := l.firstCall; f != nil {
		b := s.bar(f)
		if f.Time.After(s.to) {
			b.X, b.W = "99%", "1%"
			b.Title += ", later than this picture"
		}
		row.Bars = append(row.Bars, b)
	}
	if o := l.outcome; o != nil {
		row.Result, row.Bad = strings.ReplaceAll(oneLine(o.State), "_", " "), o.State != "ready"
		row.Reason = note(o)
		after := short(o.Time.Sub(l.began))
		row.Bars = append(row.Bars, bar{Phase: "state", Bad: row.Bad, X: fmt.Sprintf("%.3f%%", s.percent(o.Time.Sub(s.from))), W: "0.25%",
			Title: row.Result + " after " + after, Took: after})
		row.Result += " after " + after
	}
	row.Label = row.describe()
	return row
}

func (r *startRow) describe() string {
	var steps []string
	for _, b := range r.Bars {
		steps = append(steps, b.Title)
	}
	return strings.Join(steps, "; ")
}

// short gives a duration with three digits.
func short(d time.Duration) string {
	switch v := float64(d) / float64(time.Millisecond); {
	case v <= 0:
		return "0 ms"
	case v < 1:
		return fmt.Sprintf("%.2f ms", v)
	case v < 10:
		return strings.Replace(fmt.Sprintf("%.1f ms", v), ".0 ", " ", 1)
	case v < 1000:
		return fmt.Sprintf("%.0f ms", v)
	case v < 60_000:
		return strings.Replace(fmt.Sprintf("%.1f s", v/1000), ".0 ", " ", 1)
	}
	return d.Round(time.Second).String()
}

func (p *page) messages(t *trace.Trace) {
	servers, methods := map[string]bool{}, map[string]bool{}
	room := pagePayloads
	for i := range t.Records {
		r := &t.Records[i]
		if r.Type != trace.TypeMessage {
			continue
		}
		m := messageRow{At: fmt.Sprintf("%.3f", sinceBegin(t, r)), Server: oneLine(r.Server), Generation: fmt.Sprintf("#%d", r.Generation), Arrow: arrow(r),
			Direction: map[string]string{"out": "to the server"}[r.Direction], Kind: oneLine(r.Kind), Name: oneLine(messageName(r)), Method: oneLine(r.Method),
			ID: oneLine(string(r.ID)), Outcome: oneLine(strings.ReplaceAll(r.Outcome, "_", " ")), Note: note(r), Bad: failedRecord(r)}
		if m.Direction == "" {
			m.Direction = "from the server"
		}
		if r.DurationMs != nil {
			m.Took = fmt.Sprintf("%.3f", *r.DurationMs)
		}
		if r.Bytes > 0 {
			m.Bytes = fmt.Sprint(r.Bytes)
		}
		if text := payloadText(r); len(text) <= room {
			room -= len(text)
			m.Payload = printable(text)
		} else {
			m.Payload = "left out: the page is large enough; mcprt trace show --payload has it"
		}
		if m.Bad {
			p.Failed++
		}
		servers[m.Server], methods[m.Method] = true, true
		p.Messages = append(p.Messages, m)
	}
	for name := range servers {
		p.Servers = append(p.Servers, name)
	}
	for name := range methods {
		p.Methods = append(p.Methods, name)
	}
	slices.Sort(p.Servers)
	slices.Sort(p.Methods)
}
