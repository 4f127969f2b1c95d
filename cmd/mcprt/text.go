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
