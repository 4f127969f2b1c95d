package main

import (
	"strings"
	"testing"

	"github.com/goccy/go-json"
)

func TestListStats(t *testing.T) {
	flags := append([]string{"--trust-project"}, project(t)...)
	got := runTool(t, "", append([]string{"list", "--stats"}, flags...)...)
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	if got.code != exitOK || len(lines) != 3 || !strings.HasPrefix(lines[0], "NAME") {
		t.Fatalf("%+v", got)
	}
	for _, line := range lines[1:] {
		f := strings.Fields(line)
		if len(f) != 10 || f[0] == "demo" && (f[1] != "ready" || f[3] != "1" || f[4] == "0" || f[5] == "0") {
			t.Errorf("%q", line)
		}
	}
	raw := runTool(t, "", append([]string{"list", "--stats", "--json"}, flags...)...)
	var reply counted
	if err := json.Unmarshal([]byte(raw.stdout), &reply); err != nil || len(reply.Result.Servers) != 2 {
		t.Errorf("%+v: %v", raw, err)
	}
}
