package config

import (
	"strings"
	"testing"
)

// TestEveryEncodersForm: a value is found however the server's language writes it in
// JSON, also when that JSON is a text inside of JSON.
func TestEveryEncodersForm(t *testing.T) {
	r := NewRedactor([]string{"a/ü<b>\"😀", "plain-value"})
	for _, text := range []string{
		"a/ü<b>\"😀", `a/ü<b>\"😀`, `a/\u00fc<b>\"\ud83d\ude00`, `a/\u00FC<b>\"\uD83D\uDE00`, `a\/\u00fc<b>\"\ud83d\ude00`, `a\/ü<b>\"😀`,
		`a/ü\u003cb\u003e\"😀`, `a/\\u00fc<b>\\\"\\ud83d\\ude00`, `a/\\u00fc\u003cb\u003e\\\"\\ud83d\\ude00`, "plain-value", "a%2F%C3%BC%3Cb%3E%22%F0%9F%98%80",
	} {
		if got := r.Redact("x " + text + " y"); got != "x *** y" {
			t.Errorf("%s became %s", text, got)
		}
	}
}

func TestRedactText(t *testing.T) {
	for text, want := range map[string]string{
		`{"token":"abc","apiKey" : "d\"e","n":1}`:                        `{"token":"***","apiKey" : "***","n":1}`,
		`{"a":{"client_secret":"abc"},"password":"cut of`:                `{"a":{"client_secret":"***"},"password":"***`,
		`{"text":"{\"token\":\"abc\",\"x\":\"y\"}"}`:                     `{"text":"{\"token\":\"***\",\"x\":\"y\"}"}`,
		`{"text":"{\\\"token\\\":\\\"abc\\\"}"}`:                         `{"text":"{\\\"token\\\":\\\"***\\\"}"}`,
		`{"progressToken":"p1","nextCursor":"c","token":7,"token":null}`: `{"progressToken":"p1","nextCursor":"c","token":7,"token":null}`,
		`{"token":{"type":"string"},"keyboard":"k"}`:                     `{"token":{"type":"string"},"keyboard":"k"}`,
		`authorization: Bearer abcdefgh12345 and basic abc`:              `authorization: Bearer *** and basic abc`,
		`use ghp_0123456789abcdefghij01 or sk-ant-0123456789abcdefgh`:    `use *** or ***`,
		`eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln`:                      `***`,
		``: ``, `plain`: `plain`,
	} {
		if got := RedactText(text); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
	if text := `{"` + strings.Repeat(`a"token":"`, 10000); len(RedactText(text)) > 2*len(text) {
		t.Error("it grows")
	}
}
