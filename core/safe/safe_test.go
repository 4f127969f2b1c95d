package safe

import (
	"errors"
	"strings"
	"testing"

	"github.com/mcprt/mcprt/core/fault"
)

func TestGoHandsOverPanic(t *testing.T) {
	got := make(chan *fault.Error, 1)
	Go(func(e *fault.Error) { got <- e }, func() { panic("broken invariant") })
	e := <-got
	if e.Code != fault.Internal || !strings.Contains(e.Message, "broken invariant") {
		t.Fatalf("got %+v", e)
	}
	if strings.Contains(e.Message, "goroutine") {
		t.Errorf("the message shows a stack: %q", e.Message)
	}
	if cause := errors.Unwrap(e); cause == nil || !strings.Contains(cause.Error(), "safe_test.go") {
		t.Errorf("the cause has no stack of the panic: %v", cause)
	}
}

func TestGoSwallowsPanicOfHandler(t *testing.T) {
	done := make(chan struct{})
	Go(func(*fault.Error) { defer close(done); panic("again") }, func() { panic("first") })
	<-done
}

func TestGoWithoutHandler(t *testing.T) {
	done := make(chan struct{})
	Go(nil, func() { defer close(done); panic("nobody waits") })
	<-done
}

func TestDoReturnsNormally(t *testing.T) {
	ran := false
	Do(func(*fault.Error) { t.Error("onPanic without a panic") }, func() { ran = true })
	if !ran {
		t.Error("f did not run")
	}
}
