package transport

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The end is known while the child's number still is its own.
func TestAwaitEndDoesNotReap(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/bin/sh", "-c", "read x; exit 3")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan bool)
	go func() { ended <- awaitEnd(cmd.Process.Pid) }()
	select {
	case <-ended:
		t.Fatal("a running child has ended")
	default:
		in.Close()
	}
	if !<-ended {
		t.Skip("this kernel has no pidfds")
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	if err != nil || !strings.Contains(string(stat), ") Z ") {
		t.Errorf("not a zombie: %s %v", stat, err)
	}
	if !awaitEnd(cmd.Process.Pid) {
		t.Error("a zombie has not ended")
	}
	if cmd.Wait(); endingOf(cmd.ProcessState) != (ending{known: true, code: 3}) {
		t.Errorf("got %+v", endingOf(cmd.ProcessState))
	}
}
