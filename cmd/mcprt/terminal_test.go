package main

import (
	"bytes"
	"testing"
)

func TestTableAlignsAndCuts(t *testing.T) {
	rows := [][]cell{
		{{"a", ""}, {"ready", green}, {"one\x1b[2Jline\nof text", ""}},
		{{"日本語", ""}, {"x", ""}, {"", ""}},
	}
	var out bytes.Buffer
	p := &painter{Writer: &out}
	p.table([]string{"NAME", "STATE", "TEXT"}, rows)
	want := "NAME    STATE  TEXT\n" +
		"a       ready  one\uFFFD[2Jline of text\n" +
		"日本語  x\n"
	if out.String() != want {
		t.Errorf("table =\n%s\nwant\n%s", out.String(), want)
	}

	out.Reset()
	p = &painter{Writer: &out, colored: true, width: 26}
	p.table([]string{"NAME", "STATE", "TEXT"}, [][]cell{{{"a", ""}, {"ready", green}, {"twenty characters of it", ""}}})
	want = "\x1b[1mNAME\x1b[0m  \x1b[1mSTATE\x1b[0m  \x1b[1mTEXT\x1b[0m\n" +
		"a     \x1b[32mready\x1b[0m  twenty chara…\n"
	if out.String() != want {
		t.Errorf("table =\n%q\nwant\n%q", out.String(), want)
	}
}

func TestNothingTurnsWithoutATerminal(t *testing.T) {
	var out bytes.Buffer
	p, err := newPainter(&out, "always")
	if err != nil {
		t.Fatal(err)
	}
	s := newSpinner(p, "waiting")
	s.say("still waiting")
	s.end()
	s.end()
	if out.Len() != 0 {
		t.Errorf("the spinner wrote %q", out.String())
	}
}

func TestCommandLineIsQuotedForAShell(t *testing.T) {
	if got, want := commandLine("/a b/x", []string{"--k=v", "", "it's", "$HOME"}), `'/a b/x' --k=v '' 'it'\''s' '$HOME'`; got != want {
		t.Errorf("commandLine = %s, want %s", got, want)
	}
}
