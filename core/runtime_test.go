package core

import (
	"runtime/debug"
	"testing"
)

// TestRuntimeOptions: the first open decides, a later and different one is told.
func TestRuntimeOptions(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	defer func() { runtimeMu.Lock(); runtimeSet = nil; runtimeMu.Unlock() }()
	a, b := 150, 200
	if d := (RuntimeOptions{}).apply(); d != nil {
		t.Errorf("nothing asked for: %v", d)
	}
	if d := (RuntimeOptions{GCPercent: &a}).apply(); d != nil {
		t.Errorf("first: %v", d)
	}
	if d := (RuntimeOptions{GCPercent: &a}).apply(); d != nil {
		t.Errorf("the same again: %v", d)
	}
	if d := (RuntimeOptions{GCPercent: &b}).apply(); len(d) != 1 || d[0].Code != "runtime_ignored" {
		t.Errorf("another: %v", d)
	}
	if got := debug.SetGCPercent(100); got != a {
		t.Errorf("GC percent is %d", got)
	}
}
