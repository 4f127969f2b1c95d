package main

import (
	"strings"
	"unicode"
)

// printable replaces what could steer a terminal: names, descriptions and errors
// come from servers. Line breaks and tabs stay.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// oneLine is printable text without line breaks and runs of white space.
func oneLine(s string) string {
	return strings.Join(strings.Fields(printable(s)), " ")
}

// commandLine shows a command and its arguments, quoted where a shell needs it.
func commandLine(command string, args []string) string {
	words := make([]string, 0, len(args)+1)
	for _, word := range append([]string{command}, args...) {
		if word == "" || strings.ContainsAny(word, " \t\n\"'\\$`|&;<>()*?[]#~!{}") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}
