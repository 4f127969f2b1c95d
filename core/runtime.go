package core

import (
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/mcprt/mcprt/core/config"
)

// The Go runtime belongs to the process, not to a manager: the first open that
// asks for settings decides.
var (
	runtimeMu  sync.Mutex
	runtimeSet *RuntimeOptions
)

// apply honours the options once per process; a later, different wish is a
// diagnostic.
func (o RuntimeOptions) apply() []config.Diagnostic {
	if o.MaxProcs == 0 && o.MemoryLimit == 0 && o.GCPercent == nil {
		return nil
	}
	runtimeMu.Lock()
	defer runtimeMu.Unlock()
	if was := runtimeSet; was != nil {
		same := was.MaxProcs == o.MaxProcs && was.MemoryLimit == o.MemoryLimit && (was.GCPercent == nil) == (o.GCPercent == nil) &&
			(o.GCPercent == nil || *was.GCPercent == *o.GCPercent)
		if same {
			return nil
		}
		return []config.Diagnostic{{Severity: "warning", Code: "runtime_ignored", Field: "runtime",
			Message: `the option "runtime" is ignored: an earlier open of this process has set it`}}
	}
	runtimeSet = &o
	if o.MaxProcs > 0 {
		runtime.GOMAXPROCS(o.MaxProcs)
	}
	if o.MemoryLimit > 0 {
		debug.SetMemoryLimit(o.MemoryLimit)
	}
	if o.GCPercent != nil {
		debug.SetGCPercent(*o.GCPercent)
	}
	return nil
}
