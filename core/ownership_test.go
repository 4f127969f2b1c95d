package core

import (
	"testing"

	"github.com/mcprt/mcprt/core/config"
)

// A stranger's project file comes first in the order of ownership, but must not
// keep the server that the user set up under the same name from running.
func TestUntrustedEntryTakesNoServersPlace(t *testing.T) {
	stranger := &config.Entry{Name: "a", Enabled: true}
	users := &config.Entry{Name: "a", Enabled: true, Trusted: true}
	second := &config.Entry{Name: "b", Enabled: true, Trusted: true, DuplicateOf: "a"}
	asked := &config.Entry{Name: "c", Enabled: true}
	got := startable(&config.Result{Entries: []*config.Entry{stranger, asked, users, second}})
	if len(got) != 2 || got["a"] != users || got["c"] != asked {
		t.Errorf("got %v", got)
	}
}
